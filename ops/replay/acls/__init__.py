"""Read sets of ACLs, once, where the command is run."""
