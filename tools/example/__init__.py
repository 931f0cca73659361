"""An example: a small log, the daemon, and a question."""
