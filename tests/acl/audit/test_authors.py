"""The author of a change is the only caller whose request fits, or nobody is named."""

from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.audit.authors import (
    MAYBE_OTHERS,
    NO_LOG,
    NOBODY,
    NOT_ALLOWED_LEVEL,
    NOT_FOUND,
    ONLY_GIVEN,
    UNREADABLE,
    AuditedRequest,
    Author,
    Authors,
    Certainty,
    Evidence,
    EvidenceBuilder,
    Window,
)
from authorizerd.acl.past import PastChange
from tests.support.acls import acl

WINDOW = Window()
NOON = 1_764_504_000_000
ALICE, BOB = "User:alice", "User:bob"
HOUR_MS = 3_600_000


def change(at_ms: int, *, offset: int = 7, is_added: bool = True) -> PastChange:
    return PastChange(offset, NOON + at_ms, is_added, bytes(16), acl("User:a", topic="t"))


def request(
    at_ms: int, principal: str = ALICE, *, creates: bool = True, offset: int | None = None,
    via: str | None = None,
) -> AuditedRequest:  # fmt: skip
    return AuditedRequest(NOON + at_ms, creates, principal, via, offset)


def evidence(
    *requests: AuditedRequest, begin_ms: int = -HOUR_MS, end_ms: int = HOUR_MS,
    gaps: tuple[tuple[int, int], ...] = (), is_allowed: bool = True, is_controller: bool = False,
    doubt_ms: int | None = None,
) -> Evidence:  # fmt: skip
    """Return the evidence of a log with a line each second; a gap begins another file."""
    builder = EvidenceBuilder()
    is_doubtful = doubt_ms is not None
    for at_ms in range(begin_ms, end_ms + 1, 1000):
        if any(begin < at_ms < end for begin, end in gaps):
            builder.end_file("a")
            continue
        if doubt_ms is not None and is_doubtful and at_ms > doubt_ms:
            builder.add_doubt()
            is_doubtful = False
        builder.add_time(NOON + at_ms, is_allowed=is_allowed, is_heartbeat=is_controller)
    for each in requests:
        builder.add_request(each)
    builder.end_file("a")
    return builder.finish()


@pytest.mark.parametrize(
    ("given_evidence", "expected"),
    [
        (evidence(request(-50)), Author(Certainty.ONLY, (ALICE,), None, ONLY_GIVEN)),
        (evidence(request(-50), is_controller=True), Author(Certainty.COMPLETE, (ALICE,))),
        (evidence(request(90, offset=7)), Author(Certainty.WRITTEN, (ALICE,))),
        # The same caller in the logs of a broker and of a controller is one author.
        (evidence(request(-60), request(-50, via="User:broker"), is_controller=True),
         Author(Certainty.COMPLETE, (ALICE,), "User:broker")),
        (evidence(request(-60, via="User:b1"), request(-50, via="User:b2"), is_controller=True),
         Author(Certainty.COMPLETE, (ALICE,))),
        # The bounds of the window belong to it.
        (evidence(request(-11_000), is_controller=True), Author(Certainty.COMPLETE, (ALICE,))),
        (evidence(request(1_000), is_controller=True), Author(Certainty.COMPLETE, (ALICE,))),
        (evidence(request(-11_001), is_controller=True), Author(Certainty.UNKNOWN, reason=NOBODY)),
        (evidence(request(1_001)), Author(Certainty.UNKNOWN, reason=NOT_FOUND)),
        # A removal is no addition.
        (evidence(request(-50, creates=False)), Author(Certainty.UNKNOWN, reason=NOT_FOUND)),
        (evidence(request(-50), request(-5_000, BOB), is_controller=True),
         Author(Certainty.ONE_OF, (ALICE, BOB))),
        (evidence(request(-50), request(-5_000, BOB)),
         Author(Certainty.ONE_OF, (ALICE, BOB), None, MAYBE_OTHERS)),
        # The offset decides, unless another log has the same one at another time.
        (evidence(request(-50), request(-5_000, BOB), request(3, BOB, offset=7)),
         Author(Certainty.WRITTEN, (BOB,))),
        (evidence(request(-50), request(-60_000, BOB, offset=7)),
         Author(Certainty.ONLY, (ALICE,), None, ONLY_GIVEN)),
        (evidence(request(-50), request(3, BOB, offset=7, creates=False)),
         Author(Certainty.ONLY, (ALICE,), None, ONLY_GIVEN)),
        # Why nobody is named.
        (Evidence(), Author(Certainty.UNKNOWN, reason=NO_LOG)),
        (Evidence(left_out="the rest was not read"),
         Author(Certainty.UNKNOWN, reason="the rest was not read")),
        (evidence(begin_ms=60_000), Author(
            Certainty.UNKNOWN, reason="the audit logs begin at 2025-11-30T12:01:00.000Z")),
        (evidence(end_ms=-60_000), Author(
            Certainty.UNKNOWN, reason="the audit logs end at 2025-11-30T11:59:00.000Z")),
        (evidence(gaps=((-30_000, 30_000),)), Author(
            Certainty.UNKNOWN, reason="the audit logs have a gap at that time")),
        (evidence(is_allowed=False), Author(Certainty.UNKNOWN, reason=NOT_ALLOWED_LEVEL)),
        (evidence(), Author(Certainty.UNKNOWN, reason=NOT_FOUND)),
        (evidence(is_controller=True), Author(Certainty.UNKNOWN, reason=NOBODY)),
        (evidence(request(-50), doubt_ms=-4_000, is_controller=True),
         Author(Certainty.UNKNOWN, reason=UNREADABLE)),
        (evidence(request(-50), doubt_ms=-13_000, is_controller=True),
         Author(Certainty.COMPLETE, (ALICE,))),
        # A controller's log is complete only if no heartbeat is missing near the window.
        (evidence(request(-50), is_controller=True, gaps=((-9_000, -3_000),)),
         Author(Certainty.ONLY, (ALICE,), None, ONLY_GIVEN)),
        (evidence(request(-50), is_controller=True, gaps=((-9_000, -4_000),)),
         Author(Certainty.COMPLETE, (ALICE,))),
        (evidence(request(-50), is_controller=True, begin_ms=-15_000),
         Author(Certainty.ONLY, (ALICE,), None, ONLY_GIVEN)),
        (evidence(request(-50), is_controller=True, end_ms=5_000),
         Author(Certainty.ONLY, (ALICE,), None, ONLY_GIVEN)),
    ],
)  # fmt: skip
def test_author_is_named_only_if_one_caller_fits(
    given_evidence: Evidence, expected: Author
) -> None:
    assert Authors(given_evidence).find(change(0)) == expected


@pytest.mark.parametrize(
    ("author", "text"),
    [
        (Author(Certainty.WRITTEN, (ALICE,), "User:b"), "User:alice by way of User:b"),
        (Author(Certainty.COMPLETE, (ALICE,)), "User:alice"),
        (Author(Certainty.ONLY, (ALICE,), None, ONLY_GIVEN),
         "User:alice (the only caller in the given logs)"),
        (Author(Certainty.ONE_OF, (ALICE, BOB)), "one of User:alice, User:bob"),
        (Author(Certainty.ONE_OF, (ALICE, BOB), None, MAYBE_OTHERS),
         "one of User:alice, User:bob (or a caller that the given logs do not have)"),
        (Author(Certainty.UNKNOWN, reason=NO_LOG), "unknown: no audit log was given"),
    ],
)  # fmt: skip
def test_author_as_text(author: Author, text: str) -> None:
    assert str(author) == text


class Line(NamedTuple):
    """A line of a node's audit log, by its clock."""

    at_ms: int
    request: AuditedRequest | None
    is_heartbeat: bool
    is_allowed: bool


class World(NamedTuple):
    """What happened: the lines of each node, each change with its author, and each election."""

    files: dict[str, list[Line]]
    changes: list[tuple[PastChange, str]]
    elections: list[int]


USERS = ("User:a", "User:b", "User:c", "User:d")


def make_world(random: Random) -> World:
    """Return a world that keeps ``WINDOW``: clocks, latencies, heartbeats."""
    nodes = [f"controller-{number}" for number in range(3)]
    clocks = {node: NOON + random.randrange(WINDOW.skew_ms + 1) for node in nodes}
    files: dict[str, list[Line]] = {node: [] for node in nodes}
    changes: list[tuple[PastChange, str]] = []
    elections: list[int] = []
    end_ms, now, active, offset = 180_000, 0, random.choice(nodes), 0

    def log(node: str, at_ms: int, request: AuditedRequest | None, beats: bool = False) -> None:
        files[node].append(Line(clocks[node] + at_ms, request, beats, True))

    while now < end_ms:
        elections.append(NOON + now)
        reign_ms = random.randrange(2 * WINDOW.gap_ms, 60_000)
        until = min(now + reign_ms, end_ms)
        # A controller that lost contact gets heartbeats until it notices.
        for at_ms in range(now, until + random.choice((0, 3_000)), 1_900):
            log(active, at_ms, None, True)
        for _ in range(random.randrange(1 + (until - now) // random.choice((3_000, 30_000)))):
            at_ms, user, creates = random.randrange(now, until), random.choice(USERS), True
            if random.random() < 0.3:
                creates = False
            via = random.choice((None, "User:broker"))
            seen_by = [active, *(node for node in nodes if random.random() < 0.2)]
            for node in seen_by:
                stamp = clocks[node] + at_ms
                log(node, at_ms, AuditedRequest(stamp, creates, user, via))
            if random.random() < 0.3:  # it changes nothing
                continue
            latency_ms = random.choice((-25, 0, 3, 400, WINDOW.latency_ms))
            offset += 1
            stamp = clocks[active] + at_ms + latency_ms
            changes.append((PastChange(offset, stamp, creates, bytes(16), acl("User:a", topic="t")),
                            user))  # fmt: skip
            if random.random() < 0.2:
                written = AuditedRequest(stamp + 40, creates, user, None, offset)
                log(active, at_ms + latency_ms + 40, written)
        now, active = until, random.choice([node for node in nodes if node != active])
    for lines in files.values():
        lines.sort(key=lambda line: line.at_ms)
    return World(files, changes, [*elections, NOON + end_ms])


def lose_lines(random: Random, lines: list[Line]) -> list[list[Line]]:
    """Return what is left of a log: files that begin late, have a gap, or were at INFO."""
    begin = NOON + random.choice((0, 0, random.randrange(180_000)))
    gap = NOON + random.randrange(180_000)
    gap_ms = random.choice((0, 0, WINDOW.gap_ms + 2_000, 60_000))
    info = NOON + random.choice((10**9, random.randrange(180_000)))
    left = [
        line if line.at_ms < info else line._replace(is_allowed=False, request=None)
        for line in lines
        if line.at_ms >= begin and not gap <= line.at_ms < gap + gap_ms
    ]
    cut = random.randrange(len(left) + 1)
    return [left[:cut], left[cut:]]


def collect(files: list[tuple[str, list[Line]]]) -> Evidence:
    builder = EvidenceBuilder()
    for name, lines in files:
        for line in lines:
            builder.add_time(line.at_ms, is_allowed=line.is_allowed, is_heartbeat=line.is_heartbeat)
            if line.request is not None:
                builder.add_request(line.request)
        builder.end_file(name)
    return builder.finish()


@given(st.integers(0, 2**32), st.sampled_from(["whole", "lossy"]))
def test_named_author_is_the_true_one(seed: int, logs: str) -> None:
    """It holds for clocks and latencies within the window, whichever logs and lines are missing."""
    random = Random(seed)
    world = make_world(random)
    files = list(world.files.items())
    if logs == "lossy":
        files = [(name, lines) for name, lines in files if random.random() < 0.7]
        files = [(name, part) for name, lines in files for part in lose_lines(random, lines)]
    given_lines = [line.request for _, lines in files for line in lines if line.request is not None]
    found = Authors(collect(files), WINDOW)
    authors = [found.find(each) for each, _ in world.changes]
    for (made, true), author in zip(world.changes, authors, strict=True):
        match author.certainty:
            case Certainty.WRITTEN | Certainty.COMPLETE:
                assert author.principals == (true,)
            case Certainty.ONE_OF:
                assert true in author.principals or author.reason == MAYBE_OTHERS
            case Certainty.ONLY:
                (name,) = author.principals
                fitting = {
                    each.principal
                    for each in given_lines
                    if each.creates == made.is_added and each.offset is None
                    and -11_000 <= each.at_ms - made.time_ms <= 1_000
                }  # fmt: skip
                assert fitting == {name}
            case Certainty.UNKNOWN:
                assert author.reason != NOBODY
        # Far from elections, a controller's whole log is enough.
        if logs == "whole" and all(abs(each - made.time_ms) > 20_000 for each in world.elections):
            assert author.certainty not in (Certainty.ONLY, Certainty.UNKNOWN)
