"""Grants: ACLs with an end, an author and a reason, which notes record."""
