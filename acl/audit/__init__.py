"""Audit lines: their text, which decisions they are about, and which names they hide."""
