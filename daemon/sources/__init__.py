"""Sources of the ACLs: the daemon's own log, a quorum of controllers, or brokers."""
