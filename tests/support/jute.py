"""ZooKeeper's protocol: the types of its messages, and its codes.

Source: ZooKeeper 3.8 zookeeper.jute, ZooDefs.OpCode, KeeperException.Code.
"""

from __future__ import annotations

import socket
import struct
from enum import IntEnum

REQUEST_BYTES_MAX = 0xFFFFF
"""The default of jute.maxbuffer. A server closes the connection of a longer request."""

Acl = tuple[int, str, str]
"""Bits, scheme and id."""


class Op(IntEnum):
    """The requests that are understood."""

    CREATE = 1
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    GET_CHILDREN = 8
    PING = 11
    CHECK = 13
    MULTI = 14
    AUTH = 100
    SASL = 102
    CLOSE = -11


class Error(IntEnum):
    """The codes of answers."""

    OK = 0
    RUNTIME_INCONSISTENCY = -2
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NODE_EXISTS = -110
    INVALID_ACL = -114
    AUTH_FAILED = -115


class Reader:
    """Reads jute's types from a message."""

    def __init__(self, message: bytes) -> None:
        self._message = message
        self._position = 0

    def read(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(f">{layout}", self._message, self._position)
        self._position += struct.calcsize(f">{layout}")
        return values

    def buffer(self) -> bytes:
        (length,) = self.read("i")
        start, self._position = self._position, self._position + max(length, 0)
        return self._message[start : self._position]

    def text(self) -> str:
        return self.buffer().decode()

    def copy(self) -> Reader:
        copy = Reader(self._message)
        copy._position = self._position
        return copy

    def acls(self) -> tuple[Acl, ...]:
        (count,) = self.read("i")
        return tuple((self.read("i")[0], self.text(), self.text()) for _ in range(count))


def skip_rest(op: Op, reader: Reader) -> None:
    """Skip a part of a transaction."""
    reader.buffer()
    if op in (Op.CREATE, Op.SET_DATA):
        reader.buffer()
    if op is Op.CREATE:
        reader.acls()
    reader.read("i")


def write_acls(acls: tuple[Acl, ...]) -> bytes:
    return struct.pack(">i", len(acls)) + b"".join(
        struct.pack(">i", bits) + write_buffer(scheme.encode()) + write_buffer(name.encode())
        for bits, scheme, name in acls
    )


def write_buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def send(connection: socket.socket, message: bytes) -> None:
    connection.sendall(write_buffer(message))


def receive(connection: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", _receive_exactly(connection, 4))
    if not 0 <= length <= REQUEST_BYTES_MAX:
        raise EOFError
    return _receive_exactly(connection, length)


def _receive_exactly(connection: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise EOFError
        parts += part
    return parts
