"""The daemon process: binds ports, and starts and ends the actors and servers."""
