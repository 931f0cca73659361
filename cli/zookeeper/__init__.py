"""ACLs of Kafka clusters that keep them in ZooKeeper. Only ``session`` imports kazoo."""
