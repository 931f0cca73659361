"""The HTTP server of the decision, admin and metrics ports."""
