"""``authorizerd verify``: agreement, and what it must not claim."""

from __future__ import annotations

import lzma
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from authorizerd.acl.decision import MatchingAcl
from authorizerd.acl.model import Acl, Question
from authorizerd.acl.releases import Release
from authorizerd.cli.main import main
from authorizerd.protocol.verification import Cause
from authorizerd.replay.local.tallies import Summand
from authorizerd.replay.verify.history import AclChange, History, State
from authorizerd.replay.verify.judging import OLDEST
from tests.end_to_end.example_daemon import Ports
from tests.end_to_end.page_shell import Names, Shell, run_page
from tests.ops.replay.verify.both_engines import random_question, random_steps
from tests.ops.replay.verify.scripted_broker import (
    END_S,
    MORE,
    SETTINGS,
    STEPS,
    Broker,
    Step,
    acls_at,
    causes,
    make_line,
    record,
    run,
    verify,
    write_history,
    write_lines,
)
from tests.oracles.scan import decide, speaks
from tests.support.acls import acl, question
from tests.support.fixture_types import Capture
from tests.support.log_files import added, removed
from tests.support.sizes import size

ASKED = Summand("User:a", "h", "READ", "TOPIC", "ab", "LITERAL", True, None, "INFO")


def test_real_broker_agrees_with_the_acls_of_each_moment(
    real_log_dir: Path, tmp_path: Path, capsys: Capture
) -> None:
    """The page shows it. The log's end has 150 ACLs more than the moment of most lines."""
    with lzma.open(real_log_dir / "kafka-authorizer.log.xz", "rt") as log:
        lines = write_lines(tmp_path / "kafka-authorizer.log", log.read().splitlines())
    names = Names({"/var/lib/kafka/metadata": str(real_log_dir)}, Ports())
    with Shell(tmp_path) as shell:
        run_page("prove.md", "tests/ops/replay/verify/test_verify.py", shell, names)
    words = ("--super-users", "User:admin", "--allow-everyone-if-no-acl-found", "false")
    listed = real_log_dir / "acls-list.txt"
    code, document = run(capsys, "--logs", lines, "--acls", listed, *words)
    assert (code, document["agreed"]) == (3, 13_512)
    assert causes(document) == {Cause.BROKER_LACKED: 6}


def expect(steps: Sequence[Step], asked: Question, line: str, at_s: float, window_s: float) -> str:
    """Return what a line is by plain scans: agreed, a difference, or before the oldest state."""
    for number, step in enumerate(steps):
        ends_s = steps[number + 1].at_s if number + 1 < len(steps) else float("inf")
        if step.at_s > at_s + window_s or ends_s <= at_s - window_s:
            continue
        acls = acls_at(steps[: number + 1], step.at_s)
        allowed, found = decide(acls, False, asked)
        named = [str(MatchingAcl(each)) for each in acls if speaks(each, asked)] if found else []
        rules = named or ["DefaultDeny"]
        if f"is {'Allowed' if allowed else 'Denied'} " in line and any(
            f"based on rule {rule} (" in line for rule in rules
        ):
            return "agreed"
    return "early" if at_s - window_s < steps[0].at_s else "different"


@pytest.mark.parametrize("seconds", [60, 2_000])
@pytest.mark.parametrize("seed", range(size(2, 40)))
def test_result_is_that_of_plain_scans(
    seed: int, seconds: int, tmp_path: Path, capsys: Capture
) -> None:
    """A broker within the window never differs from a history of 200 changes."""
    chance = random.Random(seed)
    steps = random_steps(chance, 200, seconds)
    for delay_s, is_within in ((5, True), (20, False)):
        broker = Broker(steps)
        expected = []
        for _ in range(size(200, 3000)):
            at_s, asked = round(chance.uniform(0, seconds), 3), random_question(chance)
            broker.answer(at_s, asked, chance.uniform(-delay_s, delay_s))
            expected.append(expect(steps, asked, broker.lines[-1], at_s, 5))
        _, document = verify(
            tmp_path, capsys, broker.lines, *SETTINGS, steps=steps, end_s=seconds + 100
        )
        found = (
            document["agreed"] + document["other_rule"],
            document["not_judged"].get(OLDEST, 0),
            sum(causes(document).values()),
        )
        assert found == tuple(map(expected.count, ("agreed", "early", "different")))
        assert (found[2] == 0) is is_within


DEPENDS_ON_USERS = "depends on super.users, which is not given"
DEPENDS_ON_DEFAULT = "depends on allow.everyone.if.no.acl.found, which is not given"
DEPENDS_ON_BOTH = "depends on super.users and allow.everyone.if.no.acl.found, which is not given"
OPEN = "--allow-everyone-if-no-acl-found"


@pytest.mark.parametrize(("rule", "allowed", "words", "expected"), [
    ("SuperUser", True, (), DEPENDS_ON_USERS),
    ("SuperUser", True, ("--super-users", "User:c"), "agreed"),
    ("DefaultAllow", True, (), "agreed"),
    ("DefaultAllow", True, (OPEN, "false"), Cause.DEFAULT),
    ("DefaultDeny", False, (), "agreed"),
    ("DefaultDeny", False, (OPEN, "true"), Cause.DEFAULT),
    (str(MatchingAcl(MORE.acl)), True, (), Cause.HISTORY_LACKS),
    (None, False, (), "agreed"),
    (None, False, (OPEN, "true"), Cause.DEFAULT),
    (None, True, (), DEPENDS_ON_BOTH),
    (None, True, (OPEN, "false"), DEPENDS_ON_USERS),
    (None, True, ("--super-users=",), DEPENDS_ON_DEFAULT),
    (None, True, SETTINGS, Cause.UNKNOWN),
    ("com.example.Opa", True, (), DEPENDS_ON_BOTH),
    ("com.example.Opa", True, SETTINGS, Cause.PLUG_IN),
    ("com.example.Opa", False, (), "agreed"),
])  # fmt: skip
def test_unknown_setting_is_never_taken_for_a_value(
    rule: str | None, allowed: bool, words: tuple[str, ...], expected: str, tmp_path: Path,
    capsys: Capture,
) -> None:  # fmt: skip
    line = make_line(20, question("User:c", topic="v"), rule, allowed=allowed)
    code, document = verify(tmp_path, capsys, [line], "--min-allowed=0", *words)
    found = {**document["not_judged"], **causes(document), "agreed": document["agreed"]}
    assert {name for name, events in found.items() if events} == {expected}
    assert code == (0 if expected == "agreed" else 5 if expected in document["not_judged"] else 3)


BOTH = (acl(topic="t"), acl(topic="t", pattern="PREFIXED"))


@pytest.mark.parametrize(("rule", "found"), [
    (str(MatchingAcl(BOTH[1])), (1, 0)),
    (str(MatchingAcl(BOTH[1])).replace("[", "(").replace("]", ")"), (1, 0)),
    (str(MatchingAcl(BOTH[0])), (0, 1)),
    (str(MatchingAcl(acl(operation="WRITE", topic="t"))), (0, 0)),
    ("DefaultAllow", (0, 0)),
])  # fmt: skip
def test_rule_must_be_possible_too(
    rule: str, found: tuple[int, int], tmp_path: Path, capsys: Capture
) -> None:
    line = make_line(20, question(topic="t"), rule, allowed=True)
    steps = [Step(0, tuple(map(added, (1, 2), BOTH)))]
    code, document = verify(tmp_path, capsys, [line], *SETTINGS, steps=steps)
    assert (document["agreed"], document["other_rule"]) == found
    assert code == (0 if any(found) else 3)


@pytest.mark.parametrize(("release", "words", "only"), [
    (Release.KAFKA_4_3, (), {"4.3": 1}),
    (Release.KAFKA_4_4, (), {"4.4": 1}),
    (Release.KAFKA_4_4, ("--kafka-release", "4.4"), {}),
])  # fmt: skip
def test_page_says_which_release_alone_explains_a_decision(
    release: Release, words: tuple[str, ...], only: dict[str, int], tmp_path: Path, capsys: Capture
) -> None:
    broker = Broker(STEPS, release=release)
    broker.answer(20, question("User:d", topic="ranged"))
    words = ("--min-allowed=0", *SETTINGS, *words)
    code, document = verify(tmp_path, capsys, broker.lines, *words)
    assert (code, document["only_by_release"]) == (0, only)


@pytest.mark.parametrize(("times", "words", "code", "said"), [
    ((20,), (), 0, "differences: none"),
    ((), (), 5, "this proves nothing: no event was judged"),
    ((), (), 5, "no event in {log}"),
    ((-60,), (), 5, "check --tz"),
    ((*[20] * 19, -60), (), 0, ""),
    ((*[20] * 18, -60), (), 5, "more than 5% of the events were not judged"),
    ((20, -60), ("--max-not-judged", "0.5"), 0, ""),
    ((20, -4), ("--max-not-judged", "0"), 0, ""),  # within the window, and explained
    ((20,), ("--super-users", "User:a", "--max-not-judged", "1"), 3, "differences, super.users"),
    ((350,), (), 5, "0 allowed events judged, and --min-allowed 1"),
    ((350,), ("--min-allowed=0",), 0, "no allowed request: Kafka logs them only at DEBUG"),
    ((20,), ("--min-allowed=2",), 5, "1 allowed event judged, and --min-allowed 2"),
    ((20,), ("--newest-within", "40000d"), 0, ""),
    ((20,), ("--newest-within", "1s"), 5, "no event in {log} after 2026-10-14T17:47:00.000Z"),
    ((20,), ("--newest-within", "1s"), 5, "this proves little: 1 log with no event of late"),
])  # fmt: skip
def test_agreement_is_a_success_only_with_evidence(
    times: Sequence[float], words: tuple[str, ...], code: int, said: str, tmp_path: Path,
    capsys: Capture,
) -> None:  # fmt: skip
    broker = Broker((Step(-100), *STEPS))
    for at_s in times:
        broker.answer(at_s, question(topic="t"), delay_s=-4)
    path = write_lines(tmp_path / "audit.log", broker.lines)
    log = write_history(tmp_path, STEPS, END_S)
    given = ("verify", "--logs", str(path), "--log-dir", str(log), *SETTINGS, *words)
    assert main(given) == code
    assert said.format(log=path) in capsys.readouterr().out


def test_agreement_proves_little_with_a_damaged_archive(tmp_path: Path, capsys: Capture) -> None:
    broker = Broker((Step(-100), *STEPS))
    broker.answer(20, question(topic="t"), delay_s=-4)
    write_lines(tmp_path / "a.log", broker.lines)
    (tmp_path / "b.log.gz").write_bytes(b"damaged")
    log = write_history(tmp_path, STEPS, END_S)
    words = ("--log-dir", str(log), *SETTINGS, "--max-bad-ratio", "1")
    assert main(("verify", "--logs", *map(str, tmp_path.glob("?.log*")), *words)) == 5
    assert "proves little: 1 archive damaged, so events are missing" in capsys.readouterr().out


def test_log_of_a_broker_is_silent_unless_one_of_its_files_is_new(
    tmp_path: Path, capsys: Capture
) -> None:
    log = write_history(tmp_path, STEPS, END_S)
    for name, at_s in (("a.log", None), ("a.log.1", 20), ("b.log", None), ("c.log", 20)):
        broker = Broker(STEPS)
        if at_s is not None:
            broker.answer(at_s, question(topic="t"))
        write_lines(tmp_path / name, broker.lines)
    logs = [tmp_path / f"{name}.log*" for name in "abc"]
    code, document = run(capsys, "--log-dir", log, *SETTINGS, "--logs", *logs)
    assert (code, document["silent"]) == (0, {str(tmp_path / "b.log"): None})


def test_difference_near_the_oldest_state_may_be_by_one_before_it(
    tmp_path: Path, capsys: Capture
) -> None:
    line = make_line(4, question("User:c", topic="v"), str(MatchingAcl(MORE.acl)), allowed=True)
    _, document = verify(tmp_path, capsys, [line], *SETTINGS)
    assert (document["not_judged"], document["differences"]) == ({OLDEST: 1}, [])
    assert verify(tmp_path, capsys, [line], "--window", "1s")[1]["differences"]


@pytest.mark.parametrize(("changed", "any_principal", "concerns"), [
    (acl(topic="ab"), False, True),
    (acl(topic="a"), False, False),
    (acl(topic="a", pattern="PREFIXED"), False, True),
    (acl(topic="", pattern="PREFIXED"), False, True),
    (acl(topic="ab", pattern=99), False, True),
    (acl(topic="*"), False, True),
    (acl(topic="*", pattern=99), False, True),
    (acl(topic="*", pattern="PREFIXED"), False, False),
    (acl(group="ab"), False, False),
    (acl("User:*", topic="ab"), False, True),
    (acl("User:b", topic="ab"), False, False),
    (acl("User:b", topic="ab"), True, True),
    (acl("colonless", topic="ab"), False, True),
])  # fmt: skip
def test_state_concerns_a_request_if_its_change_may_match(
    changed: Acl, any_principal: bool, concerns: bool
) -> None:
    states = [State((), 0), State((AclChange(b"1", changed),), 1)]
    found = History("log", states).find_states(ASKED, any_principal=any_principal)
    assert found == ([0, 1] if concerns else [0])


@pytest.mark.parametrize("words", [(), ("--allow-everyone-if-no-acl-found", "true")])
def test_open_default_ends_with_the_first_acl_of_anybody(
    words: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    steps = (
        Step(0),
        Step(100, (added(1, acl("User:other", topic="v")),)),
        Step(200, (removed(1),)),
    )
    broker = record(Broker(steps, is_open=True), [question("User:c", topic="v")])
    words = ("--super-users=", *words)
    code, document = verify(tmp_path, capsys, broker.lines, *words, steps=steps)
    assert (code, document["agreed"]) == (0, len(broker.lines))


def test_clock_of_the_log_that_was_set_back_adds_states() -> None:
    """Any state may be in force while the times overlap."""
    times = (0, 100, 50, 120)
    states = [State((), time_ms) for time_ms in times]
    history = History("log", states)
    found = [list(history.find_possible(range(4), ms, 5)) for ms in (20, 60, 101, 110, 130)]
    assert found == [[0], [0, 1, 2], [0, 1, 2], [2], [3]]
