"""The commands ``who-can``, ``what-can`` and ``can``: who may do what, by the ACLs of a source."""
