"""Bytes to values and back, without sockets. Each sub-package has one protocol."""
