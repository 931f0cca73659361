"""ACLs of clusters that use ZooKeeper. Only ``session`` and ``connections`` import kazoo."""
