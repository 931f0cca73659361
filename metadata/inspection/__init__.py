"""Inspect a whole log, and repair it."""
