"""Faults that ``authorizerd verify`` must find, each with its cause."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from authorizerd.acl.releases import Release
from authorizerd.protocol.verification import Cause
from authorizerd.replay.verify.causes import Delay, find_clocks
from authorizerd.replay.verify.judging import NEWEST
from tests.ops.replay.verify.scripted_broker import (
    END_S,
    MORE,
    QUESTIONS,
    SETTINGS,
    STEPS,
    Broker,
    Step,
    causes,
    record,
    run,
    verify,
    write_history,
    write_lines,
)
from tests.support.acls import acl, question
from tests.support.fixture_types import Capture
from tests.support.log_files import added, removed


def lost(number: int) -> tuple[Step, ...]:
    """Return ``STEPS`` without the changes of one of them."""
    return tuple(Step(each.at_s) if n == number else each for n, each in enumerate(STEPS))


def moved(number: int, by_s: float) -> tuple[Step, ...]:
    """Return ``STEPS`` with one of them at another time."""
    return tuple(
        Step(each.at_s + by_s, each.changes) if n == number else each
        for n, each in enumerate(STEPS)
    )


AGAIN = (
    Step(0), Step(50, (added(1, acl(topic="t")),)), Step(200, (removed(1),)),
    Step(250, (added(2, acl("User:*", topic="*")),)), Step(270, (removed(2),)),
)  # fmt: skip
"""An ACL goes, and later another one allows the same."""
TWICE = (
    Step(0), Step(20, (added(1, acl(topic="t")),)), Step(30, (added(3, acl("User:b", topic="u")),)),
    Step(40, (removed(1),)), Step(60, (added(2, acl(topic="t")),)), Step(70, (removed(3),)),
    Step(85, (removed(2),)),
)  # fmt: skip


@pytest.mark.parametrize(("history", "broker", "words", "cause"), [
    pytest.param(STEPS, Broker(STEPS), (), None, id="none"),
    pytest.param(
        (*STEPS[:1], Step(50, (MORE,)), *STEPS[1:]), Broker(STEPS), (), Cause.BROKER_LACKED,
        id="an ACL more",
    ),
    pytest.param(
        STEPS, Broker((*STEPS[:1], Step(50, (MORE,)), *STEPS[1:])), (), Cause.HISTORY_LACKS,
        id="an ACL less",
    ),
    pytest.param(
        STEPS, Broker(STEPS, release=Release.KAFKA_4_4), ("--kafka-release", "4.3"), Cause.RELEASE,
        id="another release",
    ),
    pytest.param(
        STEPS, Broker(STEPS, super_users=["User:c"]), (), Cause.SUPER_USERS, id="a super user"
    ),
    pytest.param(
        STEPS, Broker(STEPS), ("--super-users", "User:c"), Cause.SUPER_USERS,
        id="a super user only here",
    ),
    pytest.param(
        STEPS, Broker(STEPS, plug_in="com.example.Opa"), (), Cause.PLUG_IN, id="a plug-in"
    ),
    pytest.param(STEPS, Broker(STEPS, is_open=True), (), Cause.DEFAULT, id="an open default"),
    pytest.param(
        STEPS, Broker(STEPS), ("--allow-everyone-if-no-acl-found", "true"), Cause.DEFAULT,
        id="a default that is open only here",
    ),
    pytest.param(lost(1), Broker(STEPS), (), Cause.HISTORY_LACKS, id="a lost addition"),
    pytest.param(lost(2), Broker(STEPS), (), Cause.BROKER_LACKED, id="a lost removal"),
    pytest.param(
        (*AGAIN[:2], Step(200), *AGAIN[3:]), Broker(AGAIN), (), Cause.BROKER_LACKED,
        id="a lost removal before another ACL",
    ),
    pytest.param(STEPS, Broker(STEPS, clock_s=60), (), Cause.CLOCK, id="a clock that is ahead"),
    pytest.param(
        TWICE, Broker(TWICE, clock_s=80), (), Cause.CLOCK, id="a clock that is ahead of all changes"
    ),
    pytest.param(STEPS, Broker(STEPS, clock_s=-60), (), Cause.CLOCK, id="a clock that is behind"),
    pytest.param(STEPS, Broker(moved(1, 60)), (), Cause.OTHER_TIME, id="a late addition"),
    pytest.param(STEPS, Broker(moved(2, 60)), (), Cause.OTHER_TIME, id="a late removal"),
    pytest.param(STEPS, Broker(moved(1, -60)), (), Cause.OTHER_TIME, id="an early addition"),
    pytest.param(STEPS, Broker(moved(2, -60)), (), Cause.OTHER_TIME, id="an early removal"),
])  # fmt: skip
def test_planted_fault_is_found_and_its_cause_is_named(
    history: Sequence[Step], broker: Broker, words: tuple[str, ...], cause: Cause | None,
    tmp_path: Path, capsys: Capture,
) -> None:  # fmt: skip
    ranged = question("User:d", topic="ranged")
    broker = replace(broker, lines=[])
    record(broker, (*QUESTIONS, ranged))
    code, document = verify(
        tmp_path, capsys, broker.lines, *SETTINGS, *words, steps=history, end_s=END_S + 100
    )
    assert set(causes(document)) == (set() if cause is None else {cause})
    assert code == (0 if cause is None else 3)
    differing = sum(causes(document).values())
    assert document["agreed"] + differing + sum(document["not_judged"].values()) == len(
        broker.lines
    )
    for one in (one for group in document["differences"] for one in group["listed"]):
        name, _, number = one["line"].rpartition(":")
        line = broker.lines[int(number) - 1]
        assert name == str(tmp_path / "audit.log")
        assert (
            f"= {one['principal']} is {'Allowed' if one['recorded_allowed'] else 'Denied'}" in line
        )
        assert (one["allowed"], one["rule"]) != (one["recorded_allowed"], one["recorded_rule"])


@pytest.mark.parametrize(("end_s", "is_judged"), [(208, True), (207, False)])
def test_decision_that_a_later_change_may_explain_is_not_judged(
    end_s: float, is_judged: bool, tmp_path: Path, capsys: Capture
) -> None:
    """The log may have been read while the broker wrote its record: a window is 5 seconds."""
    broker = Broker((*STEPS[:2], Step(202, (MORE,))))
    broker.answer(202, QUESTIONS[4])
    _, document = verify(tmp_path, capsys, broker.lines, *SETTINGS, steps=STEPS[:2], end_s=end_s)
    assert causes(document) == ({Cause.HISTORY_LACKS: 1} if is_judged else {})
    assert document["not_judged"] == ({} if is_judged else {NEWEST: 1})


def test_fault_that_no_state_explains_is_found_after_the_last_record(
    tmp_path: Path, capsys: Capture
) -> None:
    broker = record(Broker(STEPS, super_users=["User:c"]), QUESTIONS[4:])
    _, document = verify(tmp_path, capsys, broker.lines, *SETTINGS, steps=STEPS[:1], end_s=5)
    assert causes(document) == {Cause.SUPER_USERS: len(broker.lines)}


@pytest.mark.parametrize(("names", "is_one_broker"), [
    (("a.log.2026-11-21-16", "a.log"), True),
    (("a.log.2.gz", "a.log.1"), True),
    (("a.log.2026-11-21.1", "a.log-20261121"), True),
    (("a.log", "b.log"), False),
    (("a-1.log", "a-2.log"), False),
    (("1/a.log", "2/a.log"), False),
    (("a.log.10.0.0.1", "a.log.10.0.0.2"), False),
    (("a.log.one", "a.log.two"), False),
    (("a.1", "a.2"), False),
])  # fmt: skip
def test_change_is_late_if_a_later_file_of_the_broker_shows_it(
    names: tuple[str, str], is_one_broker: bool, tmp_path: Path, capsys: Capture
) -> None:
    """The broker decides by the addition at 100 s only from 160 s on, after a rotation."""
    lines = record(Broker(moved(1, 60)), QUESTIONS[1:2]).lines
    for name, some in zip(names, (lines[:22], lines[22:]), strict=True):
        path = tmp_path / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in some).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    log = write_history(tmp_path, STEPS, END_S + 100)
    _, document = run(capsys, "--logs", tmp_path / "logs", "--log-dir", log, *SETTINGS)
    assert set(causes(document)) == {Cause.OTHER_TIME if is_one_broker else Cause.BROKER_LACKED}


def test_clock_is_that_of_one_file(tmp_path: Path, capsys: Capture) -> None:
    log = write_history(tmp_path, STEPS, END_S + 100)
    right = write_lines(tmp_path / "right.log", record(Broker(STEPS)).lines)
    wrong = write_lines(tmp_path / "wrong.log", record(Broker(STEPS, clock_s=60)).lines)
    _, document = run(capsys, "--logs", right, wrong, "--log-dir", log, *SETTINGS)
    (group,) = document["differences"]
    assert {one["line"].rpartition(":")[0] for one in group["listed"]} == {str(wrong)}
    (detail,) = {one["detail"] for one in group["listed"]}
    seconds = int(detail.partition(" about ")[2].partition(" ")[0])
    assert detail.startswith(f"the broker of {wrong} ")
    assert abs(seconds - 60) <= 7  # the broker is asked every 7 seconds


def test_acl_in_a_line_proves_that_the_broker_had_it(tmp_path: Path, capsys: Capture) -> None:
    """No earlier line of the request shows that the broker was ahead."""
    broker = Broker(moved(1, -60))
    broker.answer(50, QUESTIONS[1])
    _, document = verify(tmp_path, capsys, broker.lines, *SETTINGS)
    assert causes(document) == {Cause.OTHER_TIME: 1}


@pytest.mark.parametrize(("others", "expected"), [(1, 17_500), (2, None)])
def test_delay_is_that_of_a_clock_if_most_changes_have_it(
    others: int, expected: int | None
) -> None:
    delays = [(10_000, 20_000), (15_000, 25_000), (90_000, 95_000), (60_000, 65_000)]
    found = [Delay("a.log", number, *each) for number, each in enumerate(delays[: 2 + others])]
    assert find_clocks(found) == ({} if expected is None else {"a.log": expected})
    assert find_clocks([found[0], found[1]._replace(change=0), *found[2:]]) == {}
