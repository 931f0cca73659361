"""A small ZooKeeper that speaks the jute protocol from a thread, and fails by a script.

It holds znodes with data, versions and permissions in memory: enough for kazoo and for an export of
ACLs. ``tests/conformance/test_zookeeper`` asks the same of a real ZooKeeper.

Source: ZooKeeper 3.8 zookeeper.jute, ZooDefs.OpCode, KeeperException.Code, PrepRequestProcessor.
"""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Final, NamedTuple

from tests.support.jute import Acl, Error, Op, Reader, receive, send, skip_rest, write_buffer
from tests.support.znode_tree import OPEN, Node, Refused, Users, ZnodeTree

NO_MULTI: Final = struct.pack(">ibi", -1, True, -1)
SESSION_TIMEOUT_MS: Final = 10_000


class Fate(Enum):
    """What becomes of a request that the script matches."""

    GO_ON = "go on"
    LOST_BEFORE = "the connection breaks, and nothing is done"
    LOST_AFTER = "it is carried out, and the connection breaks before the answer"
    UNANSWERED = "nothing is done, and the connection stays open"
    ENDLESS = "the answer claims to be of 2 GiB"
    GARBAGE = "the answer is too short"


class Step(NamedTuple):
    """A part of the script: what becomes of the next request of this kind with this path."""

    op: Op
    path: str
    act: Callable[[], Fate]


class ScriptedZooKeeper:
    """The server; see ``running_zookeeper``.

    Attributes:
        tree: the znodes. Tests read and change them.
        requests: the kind and the path of each request, those of a transaction included.
        sessions_end: True if a client that reconnects gets to know that its session has expired.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.tree = ZnodeTree()
        self.requests: list[tuple[Op, str]] = []
        self.sessions_end = False
        self._context = context
        self._script: list[Step] = []
        self._lock = threading.RLock()
        self._sessions = 0
        self._zxid = 0
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def put(self, path: str, data: bytes = b"", acls: tuple[Acl, ...] = OPEN) -> None:
        """Create a znode and its parents, or replace its data, as another client would."""
        with self._lock:
            parent = path.rpartition("/")[0]
            if parent and parent not in self.tree.nodes:
                self.put(parent, acls=acls)
            if path in self.tree.nodes:
                self.tree.nodes[path].data = data
                self.tree.nodes[path].version += 1
            else:
                self.tree.nodes[path] = Node(data, acls=acls)

    def remove(self, path: str) -> None:
        with self._lock:
            del self.tree.nodes[path]

    def data(self, parent: str) -> dict[str, bytes]:
        """Return the data of the children of a znode by their names."""
        with self._lock:
            return {
                name: self.tree.nodes[f"{parent}/{name}"].data
                for name in self.tree.list_children(parent)
            }

    def on(self, op: Op, path: str, act: Fate | Callable[[], object]) -> None:
        """Add a step to the script, for one request. A callable runs before the request does."""

        def run() -> Fate:
            if isinstance(act, Fate):
                return act
            act()
            return Fate.GO_ON

        self._script.append(Step(op, path, run))

    def break_connections(self) -> None:
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def accept(self) -> None:
        """Serve connections until ``close``."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.break_connections()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, EOFError, struct.error):
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            self._open.add(connection)
            if self._connect(connection):
                users = {("world", "anyone")}
                while self._answer(connection, Reader(receive(connection)), users):
                    pass
        self._open.discard(connection)
        connection.close()

    def _connect(self, connection: socket.socket) -> bool:
        *_, session = Reader(receive(connection)).read("iqiq")
        is_known = session == 0 or not self.sessions_end
        self._sessions += 1
        answer = struct.pack(">iiq", 0, SESSION_TIMEOUT_MS if is_known else 0, self._sessions)
        send(connection, answer + write_buffer(b"p" * 16) + b"\0")
        return is_known

    def _answer(self, connection: socket.socket, reader: Reader, users: Users) -> bool:
        xid, kind = reader.read("ii")
        op = Op(kind)
        if op in (Op.PING, Op.CLOSE):
            send(connection, struct.pack(">iqi", xid, self._zxid, 0))
            return op is Op.PING
        with self._lock:
            parts = self._read_request(op, reader)
            self.requests += [(each, path) for each, path, _ in parts]
            fate = self._find_fate(parts)
            if fate is Fate.LOST_BEFORE:
                return False
            if fate is Fate.UNANSWERED:
                return True
            if fate in (Fate.ENDLESS, Fate.GARBAGE):
                long = fate is Fate.ENDLESS
                length = 2**31 - 1 if long else 2
                connection.sendall(struct.pack(">i", length) + b"ab")
                return True
            code, body = self._run(op, parts, users)
        if fate is Fate.LOST_AFTER:
            return False
        send(connection, struct.pack(">iqi", xid, self._zxid, code) + (b"" if code else body))
        return code is not Error.AUTH_FAILED

    def _read_request(self, op: Op, reader: Reader) -> list[tuple[Op, str, Reader]]:
        """Return the parts of a request: kind, path, and the reader after the path."""
        if op is Op.AUTH:
            return [(op, "", reader)]
        if op is not Op.MULTI:
            return [(op, "" if op is Op.SASL else reader.text(), reader)]
        parts: list[tuple[Op, str, Reader]] = []
        while True:
            kind, is_end, _ = reader.read("ibi")
            if is_end:
                return parts
            start = reader.copy()
            path = start.text()
            parts.append((Op(kind), path, start))
            skip_rest(Op(kind), reader)

    def _find_fate(self, parts: list[tuple[Op, str, Reader]]) -> Fate:
        for step in self._script:
            if any((op, path) == (step.op, step.path) for op, path, _ in parts):
                self._script.remove(step)
                return step.act()
        return Fate.GO_ON

    def _run(
        self, op: Op, parts: list[tuple[Op, str, Reader]], users: Users
    ) -> tuple[Error, bytes]:
        self._zxid += 1
        if op is not Op.MULTI:
            _, path, reader = parts[0]
            if op is Op.SASL:
                return Error.AUTH_FAILED, b""
            try:
                return Error.OK, self.tree.run(op, path, reader, users)
            except Refused as refused:
                return refused.code, b""
        before = self.tree.copy([path for _, path, _ in parts])
        results: list[bytes] = []
        for kind, path, reader in parts:
            try:
                result = self.tree.run(kind, path, reader, users)
            except Refused as refused:
                self.tree.nodes = before
                failed = len(results)
                codes = [Error.OK] * failed + [refused.code]
                codes += [Error.RUNTIME_INCONSISTENCY] * (len(parts) - failed - 1)
                errors = (struct.pack(">ibii", -1, False, each, each) for each in codes)
                return Error.OK, b"".join(errors) + NO_MULTI
            results.append(struct.pack(">ibi", kind, False, 0) + result)
        return Error.OK, b"".join(results) + NO_MULTI


@contextmanager
def running_zookeeper(context: ssl.SSLContext | None = None) -> Iterator[ScriptedZooKeeper]:
    """Run a server on a free port, by TLS if there is a context, until the block ends."""
    server = ScriptedZooKeeper(context)
    thread = threading.Thread(target=server.accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join(timeout=10)
