"""The Grafana dashboard, generated from a table of its panels."""
