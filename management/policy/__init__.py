"""Assertions about access: as values, as sentences, and judged over all names and hosts."""
