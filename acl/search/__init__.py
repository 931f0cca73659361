"""Searches: who may do something, to which resources, and what they may do there.

Every search is a pure function of a snapshot and the settings, and agrees with ``acl.decision``.
"""
