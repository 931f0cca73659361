"""Routes: which Kafka questions a gateway's request needs, and how its request is read."""
