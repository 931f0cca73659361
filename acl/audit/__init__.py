"""Audit lines: their text, the decisions that they record, and the names that they hide."""
