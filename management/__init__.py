"""Tools for managing ACLs: formats, plans, policies, and ZooKeeper's representation."""
