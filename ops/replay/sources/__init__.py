"""Where a set of ACLs comes from: read once, where the command is run."""
