"""How a client of a Kafka listener proves who it is."""
