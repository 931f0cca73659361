"""ACLs of clusters in ZooKeeper. Only ``session`` and ``connections`` import kazoo."""
