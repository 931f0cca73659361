"""Sockets and connections, whatever the protocol: binding, serving, limits, memory budget."""
