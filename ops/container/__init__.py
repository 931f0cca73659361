"""Tools in the daemon's image, which run before the daemon or next to it."""
