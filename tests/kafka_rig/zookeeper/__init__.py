"""Run a real ZooKeeper, and a real Kafka broker that keeps its ACLs in it."""
