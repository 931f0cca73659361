"""What Prometheus is told of the daemon: its metrics in a table, rules, and their tests."""
