"""Seeded mutations of the code, each of which a named test must find."""
