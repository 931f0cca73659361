"""Metrics, health, readiness, the ready file and systemd notifications."""
