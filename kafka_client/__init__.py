"""The project's own Kafka client: one connection to a node, and the requests that manage ACLs."""
