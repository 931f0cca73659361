"""Apache Kafka's ACL authorizer as a daemon."""
