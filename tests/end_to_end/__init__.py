"""The daemon as its users meet it: a process, its ports, its exit code."""
