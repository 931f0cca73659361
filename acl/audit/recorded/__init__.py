"""Read the audit lines of Kafka, of this daemon and of Confluent, in every layout."""
