"""Tools that run beside the daemon in a container, from the same image."""
