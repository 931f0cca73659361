"""What answers on Kafka listeners, one module for each group of APIs."""
