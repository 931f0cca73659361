"""Run the real Apache Kafka: its broker, its tools, and its authorizer's classes."""
