"""`authorizerd acls grant` and `grants`: make, extend, end and list grants."""
