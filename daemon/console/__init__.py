"""The web console on the admin port: HTML pages that use the decision port like any other
caller."""
