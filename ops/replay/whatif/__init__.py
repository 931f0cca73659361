"""``replay whatif``: compare the decisions of other ACLs with recorded ones."""
