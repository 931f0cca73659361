"""The web console on the admin port: HTML pages that ask as any caller of the decision port."""
