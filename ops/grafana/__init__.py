"""The dashboard of the daemon in Grafana, made by code."""
