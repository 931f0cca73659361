"""The source that follows a cluster through its brokers, by listing all ACLs."""
