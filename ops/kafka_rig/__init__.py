"""The real Apache Kafka, run beside ours: its broker, its tools, its authorizer's classes."""
