"""Where the ACLs come from, and where changes go: the daemon's own log, or a cluster."""
