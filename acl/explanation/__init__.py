"""Explanations: why a question was decided as it was, what almost matches, and which change would
reverse it.

``explainer`` assembles an explanation, ``description`` is its text. ``matches`` lists the ACLs that
match, ``default_access`` the patterns that turn off allow.everyone.if.no.acl.found, ``changes`` the
ACLs to add or to remove, and ``near_misses`` the ACLs and questions that come close to allowing a
denied one.
"""
