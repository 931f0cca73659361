"""Parse log lines into events. Needs no Spark."""
