"""The followed cluster: its keys, their rules, and how the daemon logs in to it."""
