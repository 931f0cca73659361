"""The Kafka listeners and their handlers, one module for each group of APIs."""
