"""The audit log's output: Kafka's lines or JSON, to a file or a stream."""
