"""ACLs as AclAuthorizer stores them in ZooKeeper: paths, JSON, change events and dumps."""
