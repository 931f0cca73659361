"""Restatements of the semantics by plain scan, and the recorded answers of the real thing."""
