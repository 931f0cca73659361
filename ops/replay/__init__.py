"""Recorded traffic on Spark: what a change of ACLs, or of load, would have done to it.

**Invariant:** the daemon knows nothing of this package. What decides here is ``acl``, as in the
daemon.
"""
