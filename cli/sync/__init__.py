"""Keep a cluster's ACLs as files and groups say: ``authorizerd sync``."""
