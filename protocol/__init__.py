"""Bytes to values and back, without sockets. Each subpackage has one protocol."""
