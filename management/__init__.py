"""What people manage ACLs with: formats, plans, policies, and ZooKeeper's representation."""
