"""Draw random stories over few ACLs, so that they collide."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from authorizerd.acl.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.config.follow.settings import SourceKind
from tests.model.reference import CLUSTER_NAME, is_valid
from tests.model.story import (
    EARLY,
    EVERY_NODE,
    HTTP,
    INSIDE,
    KAFKA,
    LATE,
    ROOT,
    STREAM,
    THIS_NODE,
    TIMEOUTS_MS,
    USERS,
    Ask,
    Call,
    Client,
    Create,
    Delete,
    Describe,
    Event,
    Life,
    Reload,
    SetTimeout,
    Step,
    Story,
    WorkerFault,
)

_NAMES: Final = ("a", "ab", "b", "*")
_PRINCIPALS: Final = ("User:a", "User:b", "User:*")
_HOSTS: Final = ("*", "*", "10.0.0.1")
_TYPES: Final = (ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP)
_OPERATIONS: Final = (Operation.READ, Operation.DESCRIBE, Operation.ALL)
_PATTERNS: Final = (PatternType.LITERAL, PatternType.PREFIXED)
_PERMISSIONS: Final = (PermissionType.DENY, PermissionType.ALLOW, PermissionType.ALLOW)
_INVALID: Final[Sequence[dict[str, Any]]] = (
    {"resource_type": 1}, {"resource_name": ""}, {"pattern_type": PatternType.MATCH},
    {"principal": "a"}, {"operation": Operation.ANY}, {"permission_type": 0},
)  # fmt: skip
"""Changes that make an ACL invalid."""
_DELAYS_S: Final = (0.0, 0.0, 0.0, 0.001, 0.1, 0.3, 1.2)
_PATIENCE_S: Final = (0.0, 0.001, 0.1, 0.3)
PORTS: Final = (KAFKA, KAFKA, HTTP, STREAM)
_EVENTS: Final = (
    *["append"] * 6, "overtake", "elect", "elect", "resign", "isolate", "rejoin", "kill", "start",
    "drop", "snapshot", "spoil", "spoil", "spoil",
)  # fmt: skip
_BROKER_EVENTS: Final = (
    *["append"] * 4, "stop the broker", "stop the broker", "start the broker", "isolate the broker",
    "hold the broker", "hold every broker", "release the broker", "release the broker",
    "drop the broker", *["spoil the broker"] * 4,
)  # fmt: skip
_SOURCES: Final = (SourceKind.LOG, SourceKind.QUORUM, SourceKind.BROKERS)
_WEIGHTS: Final = (0.5, 0.32, 0.18)
_FORWARDED: Final = ((ROOT,), ("User:a",), USERS)
_RIGHT: Final = Acl(
    ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, "User:a", "*", Operation.ALTER,
    PermissionType.ALLOW,
)  # fmt: skip
_KINDS: Final = {INSIDE: "CCCCDDDTTAAAAPS", KAFKA: "CCCCDDDSS", HTTP: "AP", STREAM: "AP"}
"""The first letters of the steps that clients of each surface take; only one client may reload (R),
as one task handles all signals."""


def draw_story(seed: int) -> Story:
    """Return a story; its last process only reads."""
    chance = Random(seed)
    source = chance.choices(_SOURCES, _WEIGHTS)[0]
    pool = [draw_acl(chance) for _ in range(chance.choice((3, 10, 30)))]
    draw_life = _life
    if source is not SourceKind.LOG:
        draw_life = partial(_follower, source=source)
        pool += [draw_right(chance) for _ in range(len(pool) // 3)]
    lives = [draw_life(chance, pool) for _ in range(chance.randint(1, 4))]
    if source is SourceKind.LOG and chance.random() < 0.2:
        lives.append(_contended(chance, pool))
    lives = [_with_workers(chance, each) if chance.random() < 0.25 else each for each in lives]
    return Story(seed, (*lives, Life(seed=0)), source)


def _follower(chance: Random, pool: Sequence[Acl], source: SourceKind) -> Life:
    """Draw a process that follows a cluster; all its clients use ports."""
    life = _life(chance, pool)
    kinds = _EVENTS if source is SourceKind.QUORUM else _EVENTS + _BROKER_EVENTS
    forwards = source is SourceKind.QUORUM and chance.random() < 0.5
    clients = [_client(chance, pool, number, PORTS) for number in range(chance.randint(1, 5))]
    events = [_event(chance, pool, kinds) for _ in range(chance.randint(0, 12))]
    if forwards:  # other clients than ROOT need a right
        events.insert(0, Event(0.0, "append", 1, (_RIGHT,)))
        clients = [replace(each, principal=chance.choice(USERS)) for each in clients]
    outages = _interruption(chance, 0.3, (0.0, 2.0, 5.0), (0.1, 5.0, 40.0))
    if source is SourceKind.BROKERS and chance.random() < 0.5:
        events, outages = _fail_over(chance, pool) + events, ()
    clients = [_fit_follower(chance, client) for client in clients]
    stale_max_ms = chance.choice((3_000, 3_000, 10_000, 300_000))
    if source is SourceKind.BROKERS:  # a listing is as old as its question, up to three stalls
        stale_max_ms = max(stale_max_ms, int(4000 * max(life.stalls_s)))
    return replace(
        life, clients=tuple(clients), is_plugged_in=False, events=tuple(events), outages=outages,
        stale_max_ms=stale_max_ms, poll_ms=chance.choice((1_000, 1_000, 2_500)),
        timeout_ms=life.timeout_ms if source is SourceKind.QUORUM else max(TIMEOUTS_MS),
        hides_quorum=source is SourceKind.BROKERS and chance.random() < 0.3,
        forwards=chance.choice(_FORWARDED) if forwards else (),
        trusts_root=not forwards or chance.random() < 0.5, serves_copy=chance.random() < 0.3,
        retention_bytes=-1,
    )  # fmt: skip


def _contended(chance: Random, pool: Sequence[Acl]) -> Life:
    """Draw a process with one ACL that comes and goes while long batches ask about it.

    So an answer that another state has decided is wrong.
    """
    kind, read = ResourceType.TOPIC, Operation.READ
    acl = Acl(kind, "a", PatternType.LITERAL, "User:a", "*", read, PermissionType.ALLOW)
    changes = (Create((acl,)), Delete((AclFilter(resource_name="a"),)))
    questions = (Question("User:a", None, read, kind, "a"),) * 40
    clients = [
        Client(LATE, ROOT, tuple(map(partial(Call, 0.0), changes * chance.randint(6, 10))))
        for _ in range(2)
    ]
    for surface, most in ((HTTP, 3), (STREAM, 12), (STREAM, 12)):
        calls = (Call(chance.choice((0.0, 0.001)), Ask(questions)),) * chance.randint(2, most)
        clients.append(Client(surface, ROOT, calls, surface))
    return replace(
        _life(chance, pool), clients=tuple(clients), stalls_s=(0.0, 0.001), delays_s=(0.0, 0.001),
        has_short_turns=True, is_plugged_in=False, requests_max=100, end_s=None, is_killed=False,
    )  # fmt: skip


def _event(chance: Random, pool: Sequence[Acl], kinds: Sequence[str]) -> Event:
    kind = chance.choice(kinds)
    acls = tuple(chance.choice(pool) for _ in range(chance.randint(1, 4)))
    delay_s = chance.choice((0.0, 0.0, 0.01, 0.3, 2.0, 15.0))
    appends = kind in ("append", "overtake")
    return Event(delay_s, kind, chance.randrange(24), acls if appends else ())


def _fail_over(chance: Random, pool: Sequence[Acl]) -> list[Event]:
    """Draw how one broker falls behind, and is the only one left."""
    late = chance.randrange(3)
    acls = tuple(chance.choice(pool) for _ in range(3))
    others = [Event(0.0, "stop the broker", late + each) for each in (1, 2)]
    return [
        Event(3.0, "hold the broker", late), Event(0.0, "append", 1, acls),
        replace(others[0], delay_s=4.0), others[1], Event(15.0, "start the broker", late + 1),
    ]  # fmt: skip


def _interruption(
    chance: Random, none: float, begins: Sequence[float], lengths: Sequence[float]
) -> tuple[tuple[float, float], ...]:
    """Draw at most one time during which nothing arrives; ``none`` is how often there is none."""
    if chance.random() < none:
        return ()
    begin = chance.choice(begins)
    return ((begin, begin + chance.choice(lengths)),)


def _fit_follower(chance: Random, client: Client) -> Client:
    """Return a slower client that sends only what the scripted controller need not check."""
    calls = []
    for call in client.calls:
        step = call.step
        if isinstance(step, Create):
            step = Create(tuple(filter(is_valid, step.acls)))
        elif isinstance(step, Delete):
            step = Delete(tuple(each for each in step.filters if each.operation))
        if step not in (Create(()), Delete(())):
            delay_s = call.delay_s + chance.choice((0.0, 3.0, 8.0))
            calls.append(replace(call, step=step, delay_s=delay_s))
    return replace(client, calls=tuple(calls))


def _life(chance: Random, pool: Sequence[Acl]) -> Life:
    life = Life(
        seed=chance.getrandbits(32),
        clients=tuple(_client(chance, pool, number) for number in range(chance.randint(1, 7))),
        rest_s=chance.choice((0.0, 0.0, 1.5, 2.5)), is_power_lost=chance.random() < 0.6,
        stalls_s=chance.choice(((0.0,), (0.001,), (0.0, 0.1, 0.3), (0.0, 0.3, 3.0))),
        has_short_turns=chance.random() < 0.5, is_plugged_in=chance.random() < 0.3,
        requests_max=chance.choice((1, 1, 3, 100)), timeout_ms=chance.choice(TIMEOUTS_MS),
        checkpoint_bytes=chance.choice((300, 1500, 1 << 30)),
        retention_bytes=chance.choice((-1, 0, 2000)),
        segment_bytes=chance.choice((300, 2000, 1 << 30)),
        delays_s=chance.choice(((0.0,), (0.0, 0.001), (0.0, 0.1, 1.0))),
        splits=chance.random() < 0.5,
        partitions=_interruption(chance, 0.8, (0.0, 0.05, 0.3, 1.0), (0.1, 1.0, 20.0, 60.0)),
    )  # fmt: skip
    match chance.choice(("none", "none", "signal", "kill", "crash", "crash", "fail", "fail")):
        case "signal":
            return replace(life, end_s=chance.choice((0.0, 0.01, 0.3, 1.0, 3.0)))
        case "kill":
            return replace(
                life, is_killed=True, end_s=chance.choice((0.0, 0.001, 0.1, 0.3, 1.0, 3.0))
            )
        case "crash":
            return replace(
                life,
                crash_in=chance.randint(1, chance.choice((20, 60))),
                crash_at=chance.choice((None, None, "append", "sync", "rename", "remove")),
            )
        case "fail":
            return replace(
                life,
                fail_in=chance.randint(1, chance.choice((20, 60))),
                fail_at=chance.choice((None, None, "append", "sync", "open")),
            )
    return life


def _with_workers(chance: Random, life: Life) -> Life:
    """Let several workers decide instead of the daemon, and harm them."""
    cuts = (None, None, chance.randint(1, 300), chance.randint(1, 3000))
    return replace(
        life, workers=chance.choice((2, 2, 3)), is_plugged_in=False,
        worker_timeout_ms=chance.choice((2_000, 10_000)),
        worker_faults=tuple(_worker_fault(chance) for _ in range(chance.randint(0, 4))),
        feed_delays_s=chance.choice(((0.0,), (0.0, 0.001), (0.0, 0.1))),
        feed_cuts=tuple(chance.choice(cuts) for _ in range(chance.randint(0, 4))),
    )  # fmt: skip


def _worker_fault(chance: Random) -> WorkerFault:
    return WorkerFault(
        chance.choice((0.0, 0.3, 1.0, 3.0)),
        chance.choice(("kill", "stop", "stop", "refuse")),
        chance.randrange(6),
        chance.choice((0.01, 0.5, 5.0, 300.0)),
    )


def _client(
    chance: Random,
    pool: Sequence[Acl],
    number: int,
    surfaces: Sequence[str] = (INSIDE, INSIDE, *PORTS),
) -> Client:
    surface = chance.choice(surfaces)
    is_decision_port = surface in (HTTP, STREAM)
    endpoint = surface if is_decision_port else chance.choice((EARLY, LATE))
    principal = chance.choice((ROOT, ROOT, "User:a"))
    kinds = _KINDS[surface] + ("R" if not number and surface == INSIDE else "")
    calls = [_call(chance, pool, kinds) for _ in range(chance.randint(1, 6))]
    cut_after = None
    if surface != INSIDE and chance.random() < 0.3:
        cut_after = chance.randint(1, chance.choice((300, 1000, 3000)))
    return Client(endpoint, principal, tuple(calls), surface, cut_after)


def _call(chance: Random, pool: Sequence[Acl], kinds: str) -> Call:
    patience_s = chance.choice(_PATIENCE_S) if chance.random() < 0.3 else None
    turns = chance.randint(0, 8)
    return Call(chance.choice(_DELAYS_S), _step(chance, pool, kinds), patience_s, turns)


def _step(chance: Random, pool: Sequence[Acl], kinds: str) -> Step:
    match chance.choice(kinds):
        case "C":
            return Create(draw_new_acls(chance, pool))
        case "D":
            return Delete(tuple(draw_filter(chance) for _ in range(chance.choice((1, 1, 2, 3)))))
        case "T":
            timeout_ms = chance.choice((None, *TIMEOUTS_MS))
            return SetTimeout(chance.choice((EVERY_NODE, THIS_NODE)), timeout_ms)
        case "S":
            return Describe(draw_filter(chance))
        case "R":
            return Reload(chance.choice(((ROOT,), (ROOT, "User:a"), ())), chance.random() < 0.5)
        case kind:
            questions = (
                draw_question(chance) for _ in range(chance.randint(1, chance.choice((1, 6, 40))))
            )
            return Ask(tuple(questions), chance.choice((0.0, 0.01, 0.1)) if kind == "P" else None)


def draw_new_acls(chance: Random, pool: Sequence[Acl]) -> tuple[Acl, ...]:
    if chance.random() < 0.05:  # more than the applier applies at once
        acl, count = draw_acl(chance), chance.randint(60, 150)
        return tuple(
            Acl(2, f"a{number}", 3, acl.principal, "*", 3, acl.permission_type)
            for number in range(count)
        )
    acls = [chance.choice(pool) for _ in range(chance.choice((1, 1, 2, 3, 4)))]
    return tuple(
        msgspec.structs.replace(acl, **chance.choice(_INVALID)) if chance.random() < 0.1 else acl
        for acl in acls
    )


def draw_acl(chance: Random) -> Acl:
    return Acl(
        chance.choice(_TYPES), chance.choice(_NAMES), chance.choice(_PATTERNS),
        chance.choice(_PRINCIPALS), chance.choice(_HOSTS), chance.choice(_OPERATIONS),
        chance.choice(_PERMISSIONS),
    )  # fmt: skip


def draw_right(chance: Random) -> Acl:
    return Acl(
        ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, chance.choice((*USERS, "User:*")),
        chance.choice(_HOSTS), chance.choice((Operation.ALTER, Operation.DESCRIBE, Operation.ALL)),
        chance.choice(_PERMISSIONS),
    )  # fmt: skip


def draw_filter(chance: Random) -> AclFilter:
    if chance.random() < 0.05:
        return AclFilter(operation=Operation.UNKNOWN)
    return AclFilter(
        resource_type=chance.choice((ResourceType.ANY, ResourceType.ANY, *_TYPES)),
        resource_name=chance.choice((None, *_NAMES)),
        pattern_type=chance.choice((PatternType.ANY, PatternType.MATCH, *_PATTERNS)),
        principal=chance.choice((None, None, *_PRINCIPALS)),
        host=chance.choice((None, None, "*")),
        operation=chance.choice((Operation.ANY, Operation.ANY, Operation.READ)),
        permission_type=chance.choice((1, 1, PermissionType.DENY, PermissionType.ALLOW)),
    )


def draw_question(chance: Random) -> Question:
    return Question(
        chance.choice(("User:a", "User:a", "User:b", "User:b", ROOT)),
        chance.choice((None, "10.0.0.1", "10.0.0.2")),
        chance.choice((Operation.READ, Operation.DESCRIBE, Operation.WRITE)),
        chance.choice(_TYPES),
        chance.choice(("a", "ab", "abc", "b", "a7")),
    )
