"""The records of the metadata log: batches, control records, ACLs and the cluster image."""
