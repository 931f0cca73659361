"""Cluster metadata other than ACLs: topics, configs, SCRAM credentials and features. No I/O."""
