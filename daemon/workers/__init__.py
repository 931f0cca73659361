"""The worker processes that share the decision ports, and the feed that keeps them current."""
