"""``replay ingest``: read audit logs into events."""
