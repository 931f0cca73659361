"""Build the packages of a version, and their bills of materials."""
