"""A real Kafka cluster, and two daemons that follow it."""
