"""Changes that clients send to a daemon that follows a cluster: refused, or forwarded to it."""
