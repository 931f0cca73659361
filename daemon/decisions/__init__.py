"""The handlers of the decision ports (AuthZEN, OPA, the decision stream) and their callers."""
