"""Backups of a log: written, read, and restored."""
