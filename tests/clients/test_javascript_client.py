"""The JavaScript client with Node.js, against real daemons and peers that misbehave, and TLS."""

import re
import shutil
import socket
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import trio

from authorizerd.protocol.decisions.stream import encode_answer
from tests.clients.conftest import require_tokens
from tests.clients.javascript import NODE, PACKAGE, run
from tests.clients.stand_in import ANSWER_FAULTS, GREETING, HELLO_FAULTS, start_stand_in
from tests.clients.tls_peer import ANSWERS, TLS_1_2, TLS_FAULTS, TlsFault, running_peer
from tests.support.daemon_process import DaemonProcess, running, wait_until

TSC = shutil.which("tsc")
pytestmark = pytest.mark.skipif(NODE is None, reason="the client runs on Node.js: no 'node' found")

ALICE = ["User:alice", None, "READ", "TOPIC", "orders"]
BOB = ["User:bob", "::1", 3, 2, "orders"]
TOKEN = {"token": "proxy.secret"}


ASK = """
const [address, options, alice, bob] = given;
const client = new Client(address, { framesInFlightMax: 16, ...options });
const single = [client.offset, await client.decide(alice), await client.decide(bob)];
const asked = Array.from({ length: 500 }, (_, n) => n % 2 ? [alice, bob] : [bob, alice, alice]);
const minOffset = client.offset;
const many = await Promise.all(asked.map((each) => client.decideMany(each, { minOffset })));
const names = Array.from({ length: 1000 }, (_, number) => `topic-${number}`);
const allowed = await client.filterAllowed("User:alice", null, "READ", "TOPIC", names);
const mixed = await client.decideMany([alice, ["nobody", null, 1, 2, ""], alice]);
const failures = await Promise.all([
  client.decide(["nobody", null, 1, 2, ""]).catch(nameOf),
  client.filterAllowed("User:alice", null, "READ", "TOPIC", ["orders", ""]).catch(nameOf),
  client.decide(["User:\\ud800", null, 3, 2, "x"]).catch(nameOf),
  client.decide(["User:a", null, 3, 2, "x".repeat(200000)]).catch(nameOf),
  client.decide(["User:a", null, 3, 2, {}]).catch(nameOf),
  client.decide(alice, { minOffset: 1e9 }).catch((error) => error.code),
]);
client.close();
failures.push(await client.decide(alice).catch(nameOf));
return { single, many: many.map((each) => each.allowed), allowed, codes: [...mixed.codes],
  failures, offsets: [client.offset, many[0].offset] };
"""


async def test_real_daemon_decides(token_daemon: DaemonProcess) -> None:
    address = f"tcp://{token_daemon.ready['decision_stream']}"
    result = await run(ASK, address, TOKEN, ALICE, BOB)
    assert result["single"] == [-1, True, False]
    assert result["many"] == [[False, True, True], [True, False]] * 250
    assert result["allowed"] == [f"topic-{number}" for number in range(0, 1000, 2)]
    assert result["codes"] == [1, 2, 1]
    assert result["failures"] == [*["InvalidQuestionError"] * 5, 7, "ClosedError"]
    assert result["offsets"] == [token_daemon.ready["offset"]] * 2


SHOW_TOKEN = """
const [address, alice, own] = given;
const refused = await new Client(address, { token: "x" }).decide(alice).catch((error) => error);
const client = new Client(address, { token: "self.secret" });
const about = await client.decide(alice).catch(nameOf);
const allowed = await client.decide(own);
client.close();
return [refused.name, refused.code, refused instanceof exported.AnswerError, about, allowed];
"""


async def test_token_and_its_rights_are_checked(token_daemon: DaemonProcess) -> None:
    result = await run(
        SHOW_TOKEN, token_daemon.ready["decision_stream"], ALICE, ["User:self", *ALICE[1:]]
    )
    assert result == ["TokenRefusedError", 58, True, "ForbiddenError", False]


OUTLIVE = """
const [address, alice] = given;
const client = new Client(address);
const results = [];
results.push(await client.decide(alice, { timeoutMs: 40000 }));
while ((await client.decide(alice, { timeoutMs: 200 }).catch(nameOf)) === true) await sleep(10);
results.push(await client.decide(alice, { timeoutMs: 200 }).catch(nameOf));
results.push(await client.decide(alice, { timeoutMs: 40000 }));
client.close();
return results;
"""


def has_asked(daemon: DaemonProcess) -> bool:
    """Return True once the daemon has received a hello and a question."""
    return daemon.metric('authorizerd_stream_requests_total{listener="decision_stream"}') >= 2


async def test_restarted_daemon_is_found_again(
    tmp_path: Path, log_dir: Path, nursery: trio.Nursery
) -> None:
    """The script asks while there is no daemon yet, while there is one, and after each end."""
    config = {"authorizerd.decision.stream": f"unix:{tmp_path}/stream"}
    results: list[object] = []
    done = trio.Event()

    async def outlive() -> None:
        results.extend(await run(OUTLIVE, f"unix:{tmp_path}/stream", ALICE))
        done.set()

    async with trio.open_nursery() as scripts:
        scripts.start_soon(outlive)
        await trio.sleep(0.3)
        with running(tmp_path, log_dir, config) as daemon:
            wait_until(partial(has_asked, daemon), "the first question")
            daemon.stop()
        await trio.sleep(1)
        with running(tmp_path, log_dir, config):
            await done.wait()
    assert results == [True, "ConnectionLostError", True]


async def test_daemon_with_too_many_connections_refuses(tmp_path: Path, log_dir: Path) -> None:
    script = """
    const [address, alice] = given;
    const [first, second] = [1, 2].map(() => new Client(address, { token: "proxy.secret" }));
    const allowed = await first.decide(alice);
    const refused = await second.decide(alice).catch((error) => error);
    first.close();
    return [allowed, refused.name, refused.retryAfterMs];
    """
    config = require_tokens(tmp_path) | {"max.connections": "1"}
    with running(tmp_path, log_dir, config) as daemon:
        result = await run(script, daemon.ready["decision_stream"], ALICE)
    assert result == [True, "OverloadedError", 1000]


ASK_EACH = """
const [addresses, alice] = given;
const results = {};
await Promise.all(Object.entries(addresses).map(async ([name, address]) => {
  const client = new Client(address, { timeoutMs: 4000 });
  const first = await client.decide(alice).catch(nameOf);
  results[name] = [first, await client.decide(alice).catch(nameOf)];
  client.close();
}));
return results;
"""


async def test_misbehaving_server_is_never_a_permission(nursery: trio.Nursery) -> None:
    """Each fault raises the same error as in Python, twice in a row."""
    expected, addresses = {}, {}
    for name, (sent, error) in HELLO_FAULTS.items():
        expected[name], addresses[name] = [error] * 2, await start_stand_in(nursery, sent)
    for name, (sent, error) in ANSWER_FAULTS.items():
        expected[f"then {name}"] = [error] * 2
        addresses[f"then {name}"] = await start_stand_in(nursery, GREETING, sent)
    assert await run(ASK_EACH, addresses, ALICE) == expected


async def test_call_to_a_silent_peer_ends_at_the_time_limit(nursery: trio.Nursery) -> None:
    """This includes a call that waits for room in flight, and an attempt to connect."""
    script = """
    const [greets, silent, alice] = given;
    const client = new Client(greets, { timeoutMs: 100, framesInFlightMax: 2 });
    await client.connect({ timeoutMs: 20000 });
    const errors = await Promise.all([1, 2, 3].map(() => client.decide(alice).catch(nameOf)));
    client.close();
    const other = new Client(silent, { timeoutMs: 100 });
    errors.push(await other.decide(alice).catch(nameOf));
    other.close();
    const third = new Client(silent, { timeoutMs: 10000 });
    setTimeout(() => third.close(), 100);
    errors.push(await third.decide(alice).catch(nameOf));
    return errors;
    """
    greets = await start_stand_in(nursery, GREETING, then_closes=False)
    silent = await start_stand_in(nursery, then_closes=False)
    errors = await run(script, greets, silent, ALICE)
    assert set(errors[:3]) <= {"TimedOutError", "ConnectionLostError"}
    assert errors[0] == "TimedOutError"
    assert errors[3:] == ["ConnectionLostError", "ClosedError"]


async def test_only_the_decision_1_allows(nursery: trio.Nursery) -> None:
    """Fields that a later version appends are ignored, whatever their type."""
    codes = bytes(range(256))
    answer = encode_answer(1, 0, 0, codes)
    appended = b"\x82\xa1a\xcb" + bytes(8) + b"\xc0\xd4\0\0"
    body = b"\x95" + answer[5:] + appended
    address = await start_stand_in(nursery, GREETING, len(body).to_bytes(4, "big") + body)
    script = """
    const client = new Client(given[0]);
    const decisions = await client.decideMany(Array(256).fill(given[1]));
    client.close();
    return decisions.allowed;
    """
    assert await run(script, address, ALICE) == [code == 1 for code in codes]


async def test_msgpack_is_read_as_it_was_written() -> None:
    """The values have every size. An incomplete value is an error."""
    values = [
        None, "", "é" * 10, "é" * 200, "x" * 70_000, 0, 127, 128, -1, 2**40, -(2**52),
        [[], ["a", [1]]], ["a"] * 15, ["a"] * 16, ["a"] * 70_000,
    ]  # fmt: skip
    script = """
    const cut = given.map((value) => {
      try { decode(encode(value).subarray(0, -1)); return "read"; } catch { return "refused"; }
    });
    return [given.map((value) => decode(encode(value))), [...new Set(cut)]];
    """
    assert await run(script, *values) == [values, ["refused"]]


async def test_invalid_addresses_are_rejected_and_exports_are_declared() -> None:
    script = """
    const [valid, invalid] = given;
    for (const address of valid) new Client(address);
    const errors = invalid.map((address) => {
      try { return new Client(address) && "accepted"; } catch (error) { return error.name; }
    });
    return [errors, Object.keys(exported)];
    """
    invalid = ["", "unix:", "host", ":1", "host:", "host:65536", "http://h:1", "tls://h"]
    valid = ["unix:/a", "tcp://[::1]:1", "h:1", "tls://[::1]:1"]
    errors, exported = await run(script, valid, invalid)
    assert errors == ["TypeError"] * len(invalid)
    declared = (PACKAGE / "index.d.ts").read_text()
    assert set(exported) == set(re.findall(r"export (?:class|function) (\w+)", declared))


@pytest.mark.skipif(
    TSC is None, reason="the type declarations are compiled by TypeScript: no 'tsc'"
)
async def test_type_declarations_compile(tmp_path: Path) -> None:
    assert TSC is not None
    (tmp_path / "ask.mts").write_text(
        f'import {{ Client, AuthorizerdError }} from "{PACKAGE}/index.js";\n'
        'const tls = { ca: "x", cert: ["x"], key: new Uint8Array(1), rejectUnauthorized: true };\n'
        'const client = new Client("tls://a:1", { token: null, timeoutMs: 1, tls });\n'
        'const several = new Client(["a:1", "b:1"], { failoverTimeoutMs: 1 });\n'
        "several.readOffset({ timeoutMs: 1 }).then((offset) => client.requireOffset(offset));\n"
        "const may: Promise<boolean> = client.decide("
        '["User:alice", null, "READ", "TOPIC", "orders"], { minOffset: 1 });\n'
        "may.catch((error) => error instanceof AuthorizerdError);\n"
    )
    options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022"]
    done = await trio.run_process(
        [TSC, *options, tmp_path / "ask.mts"], capture_stdout=True, check=False
    )
    assert done.returncode == 0, done.stdout.decode()


def tls_options(certificates: Path, fault: TlsFault) -> dict[str, str]:
    """Return the client's options."""
    options = {"maxVersion": "TLSv1.2"} if fault.client_version == TLS_1_2 else {}
    if fault.ca is not None:
        options["ca"] = (certificates / f"{fault.ca}.pem").read_text()
    if fault.client is not None:
        options["cert"] = options["key"] = (certificates / f"{fault.client}.pem").read_text()
    return options


FAIL_TWICE = """
const describe = (error) => [error.name, error.message];
return Promise.all(given.map(async ([address, tls, alice]) => {
  const client = new Client(address, { tls, token: "id.secret" });
  const errors = [await client.connect().catch(describe)];
  errors.push(await client.decide(alice).catch(describe));
  client.close();
  return errors;
}));
"""


@pytest.fixture(scope="module")
def errors(certificates: Path) -> dict[str, list[tuple[str, str]]]:
    """The errors of two calls for each fault, all from one process."""
    with ExitStack() as stack:
        given = []
        for fault in TLS_FAULTS.values():
            address = stack.enter_context(running_peer(certificates, fault, *ANSWERS))
            given.append([f"tls://{address}", tls_options(certificates, fault), ALICE])
        return dict(zip(TLS_FAULTS, trio.run(partial(run, FAIL_TWICE, *given)), strict=True))


@pytest.mark.parametrize("name", TLS_FAULTS)
def test_fault_is_named_at_once(errors: dict[str, list[tuple[str, str]]], name: str) -> None:
    """The second call fails with the same error as the first one."""
    for kind, message in errors[name]:
        assert kind == "TlsError", message
        assert TLS_FAULTS[name].reason in message
        assert TLS_FAULTS[name].remedy in message


LOSE = """
const [address, tls, alice] = given;
const client = new Client(address, { tls });
const results = [await client.decide(alice), await client.decide(alice)];
const explain = (error) => `${error.name}: ${error.message}`;
results.push(await client.decide(alice, { timeoutMs: 300 }).catch(explain));
client.close();
return results;
"""


@pytest.mark.parametrize("client_certificate", [None, "client"])
async def test_client_decides_over_tls_and_connects_again(
    certificates: Path, client_certificate: str | None
) -> None:
    """After each answer the peer closes the connection; after two, it closes handshakes too.

    A daemon that restarts may do so: the connection is lost.
    """
    fault = TlsFault(
        requires=client_certificate is not None, client=client_certificate, handshakes=2,
        reason="", remedy="",
    )  # fmt: skip
    with running_peer(certificates, fault, *ANSWERS) as address:
        results = await run(LOSE, f"tls://{address}", tls_options(certificates, fault), ALICE)
    assert results[:2] == [True, True]
    assert results[2].startswith("ConnectionLostError: not connected: the daemon")


OTHERS = """
const [silent, refused, plain, alice, alerting] = given;
const errors = [];
for (const address of [silent, refused, ...alerting]) {
  const client = new Client(address, { timeoutMs: 300, connectTimeoutMs: 100 });
  errors.push(await client.decide(alice).catch((error) => `${error.name}: ${error.message}`));
  client.close();
}
for (const [address, tls] of [...plain.map((each) => [each, {}]), [silent, { cert: "no PEM" }]]) {
  try { new Client(address, { tls }); } catch (error) { errors.push(error.message); }
}
return errors;
"""


async def test_other_failures_of_tls_are_named(nursery: trio.Nursery) -> None:
    """Silent peers, no peer, peers that expect TLS, addresses without TLS, and invalid options."""
    silent = await start_stand_in(nursery, then_closes=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        refused = f"tls://127.0.0.1:{server.getsockname()[1]}"
    plain = ["127.0.0.1:1", "tcp://127.0.0.1:1", "unix:/run/stream"]
    alerting = [
        await start_stand_in(nursery, sent) for sent in (b"\x15\x03\x01\0\2\2\x46", b"\x15\3\3\0")
    ]
    errors = await run(OTHERS, silent.replace("tcp:", "tls:"), refused, plain, ALICE, alerting)
    assert "ConnectionLostError: not connected: the daemon did not answer in time" in errors[0]
    assert errors[1].startswith("ConnectionLostError: not connected: ")
    for error in errors[2:4]:
        assert error.startswith("TlsError: the daemon expects TLS")
    assert errors[4:7] == ["tls is given, but the address is without TLS: use tls://HOST:PORT"] * 3
    assert "PEM" in errors[7]
