"""Sources of the ACLs: at present, the daemon's own log."""
