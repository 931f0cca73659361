"""Kafka's wire protocol: framing of connections, message bodies, error codes."""
