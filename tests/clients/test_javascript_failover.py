"""The JavaScript client with several addresses, and its watch."""

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

from authorizerd.protocol.decisions.stream import encode_answer
from tests.clients.conftest import daemon_with_tokens
from tests.clients.javascript import NODE, PACKAGE, run
from tests.clients.python_clients import new_snapshot, running_pair, start
from tests.clients.stand_in import GREETING, HELLO_FAULTS, start_stand_in
from tests.daemon.decision_place import Place
from tests.daemon.stream_service import new_server, start_on_loopback, until
from tests.support.admin_client import binding, create_acls, delete_acls, filter_of, new_admin
from tests.support.certificates import Authority
from tests.support.daemon_process import closed_address
from tests.support.sockets import accepting

pytestmark = pytest.mark.skipif(NODE is None, reason="the client runs on Node.js: no 'node' found")

ALICE = ["User:alice", None, "READ", "TOPIC", "orders"]
BOB = ["User:bob", None, "READ", "TOPIC", "orders"]

FAIL_UNDER_LOAD = """
const [addresses, pid, signal, alice, bob] = given;
const client = new Client(addresses, { timeoutMs: 20000, failoverTimeoutMs: 500 });
const answers = new Set();
let [slowest, done, hasFailed] = [0, 0, false];
const ask = async () => {
  while (done < 2000) {
    const started = performance.now();
    answers.add(JSON.stringify((await client.decideMany([alice, bob, alice])).allowed));
    slowest = Math.max(slowest, performance.now() - started);
    done += 1;
    if (done >= 1000 && !hasFailed) {
      hasFailed = true;
      process.kill(pid, signal);
    }
  }
};
await Promise.all(Array.from({ length: 20 }, ask));
client.close();
return [[...answers], slowest];
"""


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSTOP"])
async def test_daemon_that_fails_under_load_costs_no_answer(
    tmp_path: Path, prepared_log: Path, signal: str
) -> None:
    """Frames in flight are asked again: every question is answered correctly and soon."""
    with running_pair(tmp_path, prepared_log) as pair:
        addresses = [each.ready["decision_stream"] for each in pair]
        pid = pair[0].process.pid
        answers, slowest_ms = await run(FAIL_UNDER_LOAD, addresses, pid, signal, ALICE, BOB)
        pair[0].process.kill()
    assert answers == ["[true,false,true]"]
    assert slowest_ms < 5500


ASK_IN_TURN = """
const [addresses, options, alice] = given;
const client = new Client(addresses, options);
const results = [];
for (let left = 3; left > 0; left -= 1) {
  const started = performance.now();
  const result = await client.decideMany([alice]).catch((error) => error);
  results.push([result.offset ?? result.name, performance.now() - started, result.message]);
}
client.close();
return results;
"""


async def test_silent_daemon_costs_one_failover_at_most(nursery: trio.Nursery) -> None:
    silent = await start_stand_in(nursery, GREETING, then_closes=False)
    second, _ = await start(nursery, 5)
    results = await run(ASK_IN_TURN, [silent, second], {"failoverTimeoutMs": 500}, ALICE)
    assert [each[0] for each in results] == [5, 5, 5]
    assert 500 <= results[0][1] < 3000
    assert max(results[1][1], results[2][1]) < 500


async def test_short_time_limit_is_divided_among_the_daemons(nursery: trio.Nursery) -> None:
    silent = [await start_stand_in(nursery, GREETING, then_closes=False) for _ in range(2)]
    last, _ = await start(nursery, 5)
    options = {"timeoutMs": 3000, "failoverTimeoutMs": 60000}
    results = await run(ASK_IN_TURN, [*silent, last], options, ALICE)
    assert [each[0] for each in results] == [5, 5, 5]


async def test_daemon_that_is_not_ready_or_refuses_is_skipped(nursery: trio.Nursery) -> None:
    first, _ = await start(nursery, None)
    second, _ = await start(nursery, 5)
    refusing = await start_stand_in(nursery, HELLO_FAULTS["refuses the token"][0])
    results = await run(ASK_IN_TURN, [refusing, first, second], {}, ALICE)
    assert [each[0] for each in results] == [5, 5, 5]
    results = await run(ASK_IN_TURN, [refusing, closed_address()], {}, ALICE)
    assert [each[0] for each in results] == ["TokenRefusedError"] * 3
    results = await run(ASK_IN_TURN, [first, first], {}, ALICE)
    assert [each[0] for each in results] == ["NotReadyError"] * 3


async def test_all_dead_or_silent_is_an_error_in_time(nursery: trio.Nursery) -> None:
    dead = [closed_address(), closed_address()]
    results = await run(ASK_IN_TURN, dead, {"timeoutMs": 500}, ALICE)
    assert {each[0] for each in results} == {"ConnectionLostError"}
    assert all(f"{address}: " in each[2] for each in results for address in dead)
    silent = [await start_stand_in(nursery, GREETING, then_closes=False) for _ in range(2)]
    options = {"timeoutMs": 1000, "failoverTimeoutMs": 200}
    results += await run(ASK_IN_TURN, silent, options, ALICE)
    assert {each[0] for each in results[3:]} <= {"ConnectionLostError", "TimedOutError"}
    assert max(each[1] for each in results) < 5000


RETURN = """
const [addresses, alice, isEnough] = given;
const clock = performance.now.bind(performance);
let shift = 0;
performance.now = () => clock() + shift;
const client = new Client(addresses);
const offsets = [];
for (let left = 8; left > 0; left -= 1) {
  offsets.push((await client.decideMany([alice])).offset);
  await sleep(100); // for the attempt to return, which runs in the background
  shift += 25000;
}
client.close();
return offsets;
"""


async def test_client_returns_to_an_earlier_address(nursery: trio.Nursery) -> None:
    """It does so only to a daemon that is ready; the hello's answer says so."""
    place = Place(None, loaded=False)
    server = new_server(place)
    first = await start_on_loopback(nursery, server)
    second, _ = await start(nursery, 5)
    assert await run(RETURN, [first, second], ALICE) == [5] * 8
    assert server.counts.not_ready == 1
    assert server.statistics.requests >= 4

    already = server.statistics.requests

    async def load() -> None:
        await until(lambda: server.statistics.requests >= already + 4)
        place.snapshot.publish(new_snapshot(7))

    nursery.start_soon(load)
    offsets = await run(RETURN, [first, second], ALICE)
    assert offsets == sorted(offsets)
    assert (offsets[0], offsets[-1]) == (5, 7)


OFFSETS = """
const [lagging, current, alone, dying, alice] = given;
const client = new Client([lagging, current], { failoverTimeoutMs: 500 });
const results = [(await client.decideMany([alice])).offset];
results.push((await client.decideMany([alice], { minOffset: 9 })).offset);
const other = new Client(alone, { timeoutMs: 300 });
const writer = new Client(current);
results.push(await other.decide(alice));
other.requireOffset(await writer.readOffset());
other.requireOffset(2);
results.push(await other.decide(alice).catch(nameOf));
const names = Array(300).fill("orders");
const filtering = new Client([dying, current]);
results.push((await filtering.filterAllowed("User:alice", null, "READ", "TOPIC", names)).length);
for (const each of [client, other, writer, filtering]) each.close();
return results;
"""


async def test_required_offset_is_awaited_or_found_elsewhere(nursery: trio.Nursery) -> None:
    """The offset of a daemon that dies between frames is not required of the next one."""
    lagging, _ = await start(nursery, 3)
    current, _ = await start(nursery, 9)
    alone, _ = await start(nursery, 3)
    dying = await start_stand_in(nursery, GREETING, encode_answer(1, 0, 10**6, b"\1" * 256))
    results = await run(OFFSETS, lagging, current, alone, dying, ALICE)
    assert results == [3, 9, True, "TimedOutError", 300]


async def test_last_daemon_may_use_all_the_time_for_an_offset(nursery: trio.Nursery) -> None:
    lagging = [await start(nursery, 3) for _ in range(3)]
    script = """
    const [addresses, alice] = given;
    const client = new Client(addresses, { timeoutMs: 60000, failoverTimeoutMs: 200 });
    const decisions = await client.decideMany([alice], { minOffset: 9 });
    client.close();
    return decisions.offset;
    """

    async def catch_up() -> None:
        await trio.sleep(1.5)  # longer than all daemons get before the last
        for _, place in lagging:
            place.snapshot.publish(new_snapshot(9))

    nursery.start_soon(catch_up)
    assert await run(script, [address for address, _ in lagging], ALICE) == 9


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
