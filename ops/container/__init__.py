"""Tools in the daemon's image that run before it or next to it."""
