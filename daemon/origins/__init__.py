"""Where ACLs come from and changes go: the daemon's own log, or a cluster."""
