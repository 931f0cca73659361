"""The client in JavaScript, which was written from docs/stream.md alone, with a real daemon."""

from __future__ import annotations

import json
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.ops.stream_client.stand_in import GREETING, NO_ANSWERS, NO_GREETINGS, start_stand_in
from tests.support.admin_client import binding, create_acls, new_admin
from tests.support.daemon_process import ROOT, SECONDS_MAX, new_log, running

NODE = shutil.which("node")
CLIENT = ROOT / "ops" / "stream_client" / "javascript" / "stream-client.mjs"
pytestmark = pytest.mark.skipif(NODE is None, reason="node, which the client runs on, is not here")

ALICE = ["User:alice", None, "READ", "TOPIC", "orders"]
BOB = ["User:bob", "::1", 3, 2, "orders"]
SAID = "const said = (error) => error.code ?? error.message;"


def command(script: str, *arguments: object) -> list[str]:
    """Return how to run ``script``, to which StreamClient and the arguments ``given`` are known."""
    assert NODE is not None
    head = (
        f"import {{ StreamClient, encode, decode }} from {json.dumps(CLIENT.as_uri())};"
        f"const given = {json.dumps(arguments)}; {SAID}"
    )
    return [NODE, "--input-type=module", "--eval", head + script]


def run(script: str, *arguments: object) -> Any:  # noqa: ANN401 - what the script prints, as JSON
    done = subprocess.run(
        command(script, *arguments),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


ASK_MANY = """
const [address, alice, bob, minOffset] = given;
const client = await StreamClient.open(address, { timeoutMs: 20000 });
const all = await Promise.all(Array.from({ length: 500 }, (_, number) =>
  client.ask(number % 2 ? [alice, bob] : [bob, alice, alice], { minOffset })));
const odd = await client.ask([["nobody", null, 99, "TOPIC", ""]]);
const half = await client.ask([["User:\\ud800", null, 3, 2, "x"]]).catch((error) => error.name);
const late = await client.ask([alice], { minOffset: minOffset + 1000 }).catch(said);
client.close();
const after = await client.ask([alice]).catch(said);
const offsets = [client.offset, all[0].offset];
console.log(JSON.stringify(
  { all: all.map((each) => each.allowed), odd: odd.allowed, half, late, after, offsets }));
"""


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_it_gets_the_daemons_decisions(tmp_path: Path, kind: str) -> None:
    """Five hundred frames in flight at once, names and codes, and errors that stay errors."""
    place = f"unix:{tmp_path}/stream" if kind == "unix" else "tcp://127.0.0.1:0"
    config = {"authorizerd.decision.stream": place, "authorizerd.update.timeout.ms": "1000"}
    with running(tmp_path, new_log(tmp_path), config, super_users="User:ANONYMOUS") as daemon:
        admin = new_admin(daemon)
        assert create_acls(admin, binding()) == [None]
        offset = daemon.ready["offset"] + 1
        found = run(ASK_MANY, daemon.ready["decision_stream"], ALICE, BOB, offset)
        allowed = '{result="allowed",surface="Stream"}'
        assert daemon.metric(f"authorizerd_decisions_total{allowed}") == 750
        stream = '{listener="decision_stream"}'
        assert daemon.metric(f"authorizerd_stream_requests_total{stream}") == 503
    assert found["all"] == [[False, True, True], [True, False]] * 250
    assert (found["odd"], found["half"], found["late"]) == ([False], "TypeError", 7)
    assert found["after"] == "the client was closed"
    assert found["offsets"] == [offset, offset]


SHOW_TOKEN = """
const [address, alice, own, token] = given;
const refused = await StreamClient.open(address, { token: "x" }).catch(said);
const client = await StreamClient.open(address, { token });
const about = await client.ask([alice]).catch(said);
const { allowed } = await client.ask([own]);
client.close();
console.log(JSON.stringify([refused, about, allowed]));
"""


def test_it_shows_its_token(tmp_path: Path) -> None:
    """A daemon with a tokens file knows it by that; a wrong one is refused."""
    tokens = tmp_path / "tokens"
    tokens.write_text(f"proxy {sha256(b'secret').hexdigest()} User:proxy\n")
    config = {"authorizerd.tokens.file": str(tokens)}
    own = ["User:proxy", *ALICE[1:]]
    with running(tmp_path, new_log(tmp_path), config) as daemon:
        address = daemon.ready["decision_stream"]
        assert run(SHOW_TOKEN, address, ALICE, own, "proxy.secret") == [58, 31, [False]]


ASK_EACH = """
const [addresses, alice] = given;
const results = {};
for (const [name, address] of Object.entries(addresses)) {
  try {
    const client = await StreamClient.open(address, { timeoutMs: 2000 });
    results[name] = await client.ask([alice]).catch((error) => error instanceof Error);
    client.close();
  } catch (error) {
    results[name] = error instanceof Error;
  }
}
console.log(JSON.stringify(results));
"""


async def test_whatever_a_server_says_is_never_an_allow(nursery: trio.Nursery) -> None:
    """Garbage, silence, an answer to another question, too few decisions: an error each."""
    addresses = {
        name: await start_stand_in(nursery, greeting) for name, greeting in NO_GREETINGS.items()
    }
    for name, answer in NO_ANSWERS.items():
        addresses[f"then {name}"] = await start_stand_in(nursery, GREETING, answer)
    with trio.fail_after(SECONDS_MAX):
        done = await trio.run_process(
            command(ASK_EACH, addresses, ALICE), capture_stdout=True, capture_stderr=True
        )
    assert json.loads(done.stdout) == dict.fromkeys(addresses, True)
    nursery.cancel_scope.cancel()


def test_its_msgpack_comes_back_as_it_was() -> None:
    """Texts, numbers of every size, nil and arrays; what is cut off is an error."""
    values = [
        None,
        "",
        "é" * 200,
        "x" * 70_000,
        0,
        -1,
        2**40,
        -(2**52),
        [[], ["a", [1]]],
        list("abc"),
    ]
    script = """
    const cut = given.map((value) => {
      const bytes = encode(value);
      try { decode(bytes.subarray(0, -1)); return "read"; } catch (error) { return "refused"; }
    });
    console.log(JSON.stringify([given.map((value) => decode(encode(value))), [...new Set(cut)]]));
    """
    assert run(script, *values) == [values, ["refused"]]
