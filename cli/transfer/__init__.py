"""The commands ``acls import`` and ``acls export``: ACLs from any place to any other."""
