"""Sockets and connections of all protocols: binding, serving, limits, memory budget."""
