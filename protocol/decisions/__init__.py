"""The messages of the decision ports: AuthZEN, OPA and the decision stream."""
