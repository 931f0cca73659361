"""Our decisions beside those of each release of Kafka, on random ACLs with hosts of every kind."""
