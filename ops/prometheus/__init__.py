"""Monitoring with Prometheus: the catalogue of metrics, the rules, and their tests."""
