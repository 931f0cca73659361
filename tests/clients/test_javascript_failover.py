"""The JavaScript client with several addresses: daemons that die, hang, are not ready or lag."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from authorizerd.protocol.decisions.stream import encode_answer
from tests.clients.javascript import NODE, run
from tests.clients.pairs import closed_address, new_snapshot, running_pair, start
from tests.clients.stand_in import GREETING, HELLO_FAULTS, start_stand_in
from tests.daemon.decision_place import Place
from tests.daemon.stream_service import new_server, start_on_loopback, until

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
