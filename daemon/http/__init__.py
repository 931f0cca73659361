"""The HTTP server of the decision and admin ports."""
