"""The process log: format, rate limit, and the thread that writes it."""
