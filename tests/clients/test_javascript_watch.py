"""The watch of the JavaScript client."""

import json
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.clients.conftest import daemon_with_tokens
from tests.clients.javascript import NODE, PACKAGE, run
from tests.support.admin_client import binding, create_acls, delete_acls, filter_of, new_admin
from tests.support.certificates import Authority
from tests.support.sockets import accepting

pytestmark = pytest.mark.skipif(NODE is None, reason="the client runs on Node.js: no 'node' found")

FOLLOW = """
import { watch } from PACKAGE;
const copy = new Map();
for await (const event of watch(ADDRESS, OPTIONS)) {
  if (event.type === "listing") {
    copy.clear();
    event.acls.forEach((acl, id) => copy.set(id, acl.resource_name));
  } else if (event.type === "changes") {
    for (const { change, id, acl } of event.changes) {
      if (copy.has(id) === (change === "add")) {
        throw new Error(`${change} ${id} does not fit`);
      }
      change === "add" ? copy.set(id, acl.resource_name) : copy.delete(id);
    }
  }
  console.log(JSON.stringify([event.type, [...copy.values()].sort()]));
}
"""
FIRST_ERROR = """
const [address, options] = given;
try {
  for await (const event of exported.watch(address, options)) {
    return event.type;
  }
} catch (error) {
  return [error.name, error.message];
}
"""


@contextmanager
def following(address: str, **options: Any) -> Iterator[Callable[[], Any]]:  # noqa: ANN401 - JSON
    """Run a program that follows the ACLs; yield a function that returns its next line."""
    assert NODE is not None
    values = {
        "PACKAGE": (PACKAGE / "index.js").as_uri(),
        "ADDRESS": address,
        "OPTIONS": {"token": "root.secret", **options},
    }
    program = FOLLOW
    for name, value in values.items():
        program = program.replace(name, json.dumps(value))
    with subprocess.Popen(
        [NODE, "--input-type=module", "-e", program], stdout=subprocess.PIPE, text=True
    ) as process:
        output = process.stdout
        assert output is not None
        try:
            yield lambda: json.loads(output.readline())
        finally:
            process.kill()


def test_watch_survives_a_restart(tmp_path: Path) -> None:
    with daemon_with_tokens(tmp_path) as daemon:
        place = daemon.ready["decision_http"]
        with following(f"http://{place}") as read:
            assert read() == ["listing", []]
            admin = new_admin(daemon)
            create_acls(admin, binding("orders"), binding("payments"))
            assert read() == ["changes", ["orders", "payments"]]
            delete_acls(admin, filter_of("orders"))
            assert read() == ["changes", ["payments"]]
            assert daemon.stop(signal.SIGTERM)[0] == 0
            with daemon_with_tokens(
                tmp_path, authorizerd_decision_http=f"http://{place}"
            ) as restarted:
                assert read() == ["listing", ["payments"]]
                create_acls(new_admin(restarted), binding("returns"))
                assert read() == ["changes", ["payments", "returns"]]


def test_watch_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = {"authorizerd_decision_http": "https://127.0.0.1:0"}
    with daemon_with_tokens(tmp_path, authority.server_keys(), **settings) as daemon:
        address = f"https://{daemon.ready['decision_http']}"
        with following(address, tls={"ca": authority.ca_file.read_text()}) as read:
            assert read() == ["listing", []]
            create_acls(new_admin(daemon), binding("orders"))
            assert read() == ["changes", ["orders"]]
        name, _ = trio.run(run, FIRST_ERROR, address, {"token": "root.secret"})
        assert name == "TlsError"


def test_watch_that_cannot_go_on_throws(tmp_path: Path) -> None:
    with daemon_with_tokens(tmp_path) as daemon:
        address = f"http://{daemon.ready['decision_http']}"
        for token, name in (
            ("other.secret", "ForbiddenError"),
            ("root.wrong", "TokenRefusedError"),
            (None, "TokenRefusedError"),
        ):
            assert trio.run(run, FIRST_ERROR, address, {"token": token})[0] == name
    found, text = trio.run(run, FIRST_ERROR, address, {"retryMs": 200})
    assert (found, text.startswith("not connected: ")) == ("ConnectionLostError", True)
    assert trio.run(run, FIRST_ERROR, "tcp://h:1", {})[0] == "TypeError"


def test_watch_that_begins_again_shows_that_decisions_have_resumed() -> None:
    """The daemon tells only those who are connected."""
    begun = HEAD + b'\r\nevent: begin\ndata: {"after":1,"offset":1}\n\n'
    stopped = b'event: suspended\ndata: {"offset":1,"reason":"stale"}\n\n'
    answers = [HEAD + b'\r\n{"offset":1}\n{"count":0}\n', begun + stopped, begun, begun + stopped]

    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(answers.pop(0))

    with accepting(serve) as address, following(f"http://{address}") as read:
        assert [read()[0] for _ in range(4)] == ["listing", "suspended", "resumed", "suspended"]


HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
ANSWERS = {
    b"hello": "ProtocolError",
    HEAD + b"\r\n{}\n[]\n": "ProtocolError",
    HEAD + b"\r\n{\xff}\n": "ProtocolError",
    HEAD + b'\r\n{"offset":1}\n{"id":"a","acl":{}}\n': "ProtocolError",
    HEAD + b'\r\n{"offset":1}\n': "ConnectionLostError",
    HEAD + b'\r\n{"offset":1}\n{"count":1}\n': "ConnectionLostError",
    HEAD + b'Transfer-Encoding: chunked\r\n\r\n2\r\n{"': "ConnectionLostError",
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n": "ProtocolError",
}


@pytest.mark.parametrize(("answer", "name"), ANSWERS.items())
async def test_other_answers_are_errors(nursery: trio.Nursery, answer: bytes, name: str) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(answer)
        await stream.aclose()

    listeners = await nursery.start(trio.serve_tcp, serve, 0)
    address = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    found, _ = await run(FIRST_ERROR, address, {"retryMs": 0})
    assert found == name
    nursery.cancel_scope.cancel()


async def test_silent_daemon_is_left(nursery: trio.Nursery) -> None:
    """It should have sent a heartbeat."""

    async def serve(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    listeners = await nursery.start(trio.serve_tcp, serve, 0)
    address = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    found, text = await run(FIRST_ERROR, address, {"retryMs": 100, "silenceMs": 100})
    assert (found, "not answered for 100 ms" in text) == ("ConnectionLostError", True)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nX: ", b""])
async def test_dripped_head_ends_at_the_limit(nursery: trio.Nursery, start: bytes) -> None:
    """The peer closes after two seconds, which would be another error."""

    async def serve(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            await stream.receive_some()
            await stream.send_all(start)
            for byte in b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100:
                await trio.sleep(0.02)
                await stream.send_all(bytes((byte,)))
            await stream.aclose()

    listeners = await nursery.start(trio.serve_tcp, serve, 0)
    address = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    found, text = await run(FIRST_ERROR, address, {"retryMs": 100, "silenceMs": 200})
    assert (found, "has not answered for 200 ms" in text) == ("ConnectionLostError", True)
    nursery.cancel_scope.cancel()
