"""The semantics as plain scans, and recorded answers of Kafka."""
