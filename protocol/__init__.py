"""Bytes to values and back, without sockets. Each room holds one protocol."""
