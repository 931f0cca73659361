"""What answers on the decision ports: AuthZEN, OPA, the decision stream, and who may ask."""
