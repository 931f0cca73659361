"""A small log to try the daemon on, and what to ask it."""
