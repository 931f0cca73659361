"""Evaluate recorded traffic on Spark: against other ACLs, or as a load on a running daemon.

**Invariant:** the daemon imports nothing from this package. Decisions come from ``acl``, as in the
daemon.
"""
