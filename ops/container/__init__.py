"""The daemon in a container: what stands beside it there, in the same image."""
