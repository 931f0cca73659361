"""Ours beside the real Kafka, run here and now; skipped, with the reason, where there is none."""
