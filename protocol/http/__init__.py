"""HTTP/1.1: one server connection, its request heads and its messages."""
