"""Compare the daemon with the real Kafka. Without Kafka, the tests are skipped with the reason."""
