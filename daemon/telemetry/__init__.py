"""What operators see: metrics, health, readiness, the ready file and systemd."""
