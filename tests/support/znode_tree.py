"""ZooKeeper's znodes in memory: data, versions and permissions.

Source: ZooKeeper 3.8 PrepRequestProcessor, FinalRequestProcessor, PathUtils.
"""

import struct
from base64 import b64encode
from collections.abc import Collection
from hashlib import sha1
from typing import Final

import msgspec

from tests.support.jute import Acl, Error, Op, Reader, write_acls, write_buffer

READ, WRITE, CREATE, ADMIN = 1, 2, 4, 16
OPEN: Final = ((31, "world", "anyone"),)
Users = set[tuple[str, str]]


class Refused(Exception):
    """A request with an error as its answer."""

    def __init__(self, code: Error) -> None:
        super().__init__(code.name)
        self.code = code


class Node(msgspec.Struct):
    """A znode."""

    data: bytes = b""
    version: int = 0
    acls: tuple[Acl, ...] = OPEN
    sequence: int = 0


class ZnodeTree:
    """The znodes by path."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {"/": Node()}

    def run(self, op: Op, path: str, reader: Reader, users: Users) -> bytes:
        """Carry out one request, and return the body of its answer, or raise Refused."""
        if op is Op.AUTH:
            return _add_user(reader, users)
        _check_path(path)
        if op is Op.CREATE:
            return self._create(path, reader, users)
        node = self.nodes.get(path)
        if node is None:
            raise Refused(Error.NO_NODE)
        match op:
            case Op.CHECK | Op.SET_DATA:
                _demand(node, users, READ if op is Op.CHECK else WRITE)
                data = reader.buffer() if op is Op.SET_DATA else node.data
                (version,) = reader.read("i")
                if version not in (-1, node.version):
                    raise Refused(Error.BAD_VERSION)
                if op is Op.CHECK:
                    return b""
                node.data, node.version = data, node.version + 1
                return self._stat(path)
            case Op.GET_ACL:
                _demand(node, users, READ | ADMIN)
                return write_acls(_mask(node, users)) + self._stat(path)
            case Op.GET_DATA:
                _demand(node, users, READ)
                return write_buffer(node.data) + self._stat(path)
            case Op.GET_CHILDREN:
                _demand(node, users, READ)
                names = self.list_children(path)
                return struct.pack(">i", len(names)) + b"".join(
                    write_buffer(each.encode()) for each in names
                )
            case _:
                raise Refused(Error.UNIMPLEMENTED)

    def _create(self, path: str, reader: Reader, users: Users) -> bytes:
        data, acls, (flags,) = reader.buffer(), reader.acls(), reader.read("i")
        parent = self.nodes.get(path.rpartition("/")[0] or "/")
        if parent is None:
            raise Refused(Error.NO_NODE)
        _demand(parent, users, CREATE)
        if flags & 2:
            path += f"{parent.sequence:010}"
        parent.sequence += 1
        if path in self.nodes:
            raise Refused(Error.NODE_EXISTS)
        self.nodes[path] = Node(data, acls=_expand(acls, users))
        return write_buffer(path.encode())

    def list_children(self, parent: str) -> list[str]:
        prefix = parent.rstrip("/") + "/"
        return [
            path.removeprefix(prefix)
            for path in self.nodes
            if path.startswith(prefix) and path != "/" and "/" not in path.removeprefix(prefix)
        ]

    def _stat(self, path: str) -> bytes:
        node = self.nodes[path]
        # Clients that count children list them; here, counting would take as long.
        return struct.pack(">qqqqiiiqiiq", 1, 1, 0, 0, node.version, 0, 0, 0, len(node.data), 0, 1)

    def copy(self, paths: Collection[str]) -> dict[str, Node]:
        """Return the znodes as they are, so that changes of these paths can be undone."""
        touched = {*paths, *(each.rpartition("/")[0] or "/" for each in paths)}
        copies = {
            each: msgspec.structs.replace(self.nodes[each]) for each in touched & self.nodes.keys()
        }
        return self.nodes | copies


def _add_user(reader: Reader, users: Users) -> bytes:
    reader.read("i")
    scheme, secret = reader.text(), reader.buffer()
    name = secret.partition(b":")[0].decode()
    users.add((scheme, f"{name}:{b64encode(sha1(secret).digest()).decode()}"))
    return b""


def _check_path(path: str) -> None:
    """Reject what PathUtils.validatePath rejects; a Java string is UTF-16."""
    names = path.removeprefix("/").split("/") if path != "/" else []
    units = struct.unpack(f">{len(path.encode('utf-16-be')) // 2}H", path.encode("utf-16-be"))
    is_valid = path.startswith("/") and not {"", ".", ".."} & set(names)
    bad = ((0, 0x1F), (0x7F, 0x9F), (0xD800, 0xF8FF), (0xFFF0, 0xFFFF))
    if not is_valid or any(low <= unit <= high for unit in units for low, high in bad):
        raise Refused(Error.BAD_ARGUMENTS)


def _demand(node: Node, users: Users, bits: int) -> None:
    if not any(given & bits and (scheme, name) in users for given, scheme, name in node.acls):
        raise Refused(Error.NO_AUTH)


def _mask(node: Node, users: Users) -> tuple[Acl, ...]:
    """Return a znode's permissions; hashes of passwords only for its administrators."""
    if any(bits & ADMIN and (scheme, name) in users for bits, scheme, name in node.acls):
        return node.acls
    return tuple(
        (bits, scheme, f"{name.partition(':')[0]}:x" if scheme == "digest" else name)
        for bits, scheme, name in node.acls
    )


def _expand(acls: tuple[Acl, ...], users: Users) -> tuple[Acl, ...]:
    """Return permissions with the scheme ``auth`` replaced by the user's ids."""
    known = sorted(users - {("world", "anyone")})
    found: list[Acl] = []
    for bits, scheme, name in acls:
        if scheme != "auth":
            found.append((bits, scheme, name))
        elif known:
            found += [(bits, *each) for each in known]
        else:
            raise Refused(Error.INVALID_ACL)
    if not found:
        raise Refused(Error.INVALID_ACL)
    return tuple(found)
