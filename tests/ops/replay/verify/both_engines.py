"""Run ``authorizerd verify`` in one process and as the tasks of Spark do, on random records."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from authorizerd.acl.model import Acl, AclAdded, AclRemoved, Question
from authorizerd.cli.main import main
from authorizerd.protocol.verification import Cause
from authorizerd.replay.plans import VerifyPlan, decode_plan, encode_plan
from authorizerd.replay.submit import submitter
from tests.ops.replay.verify.scripted_broker import Broker, Step, write_history, write_lines
from tests.support.acls import acl, question
from tests.support.fixture_types import Capture, MonkeyPatch
from tests.support.log_files import added, removed
from tests.support.sizes import size

Job: TypeAlias = Callable[[VerifyPlan], int]
FAULTS: dict[str, dict[str, Any]] = {
    "none": {},
    Cause.CLOCK: {"clock_s": 60},
    Cause.SUPER_USERS: {"super_users": ["User:a"]},
    Cause.DEFAULT: {"is_open": True},
    Cause.PLUG_IN: {"plug_in": "com.example.Opa"},
}
BAD_LINES = ("--max-bad-ratio", "0.5")


def submit_to(monkeypatch: MonkeyPatch, job: Job) -> None:
    """Let a function run the plan that the command would submit to Spark."""

    def submit(plan: VerifyPlan, _: object) -> int:
        sent = decode_plan(encode_plan(plan))
        assert isinstance(sent, VerifyPlan)
        return job(sent)

    monkeypatch.setattr(submitter, "submit", submit)


def check_engines(capsys: Capture, *words: str | Path) -> dict[str, int]:
    """Check that both engines print the same, and return the events of each cause."""
    given = ["verify", "--json", *map(str, words)]
    code = main(given)
    here = capsys.readouterr().out
    assert main([*given, "--engine", "spark"]) == code
    found = capsys.readouterr()
    assert found.out == here
    assert "authorizerd verify: engine: spark (--engine spark)\n" in found.err
    return {group["cause"]: group["events"] for group in msgspec.json.decode(here)["differences"]}


def write_random_logs(chance: random.Random, folder: Path, fault: str) -> tuple[Path, Path]:
    """Write a history, and a folder with the logs of two brokers, of which one has a fault."""
    steps = random_steps(chance, 40, 2_000)
    log = write_history(folder / "log", steps, 2_100)
    logs = folder / "logs"
    logs.mkdir()
    for name, broker in (("one", Broker(steps)), ("two", Broker(steps, **FAULTS[fault]))):
        for _ in range(size(300, 2_000)):
            at_s, asked = round(chance.uniform(0, 2_000), 3), random_question(chance)
            broker.answer(at_s, asked, chance.choice((0, 0, 0, 0, 20)))
        broker.lines[7:7] = ["", "no decision", "[2026-11-21 16:26:01,000] INFO "]
        write_lines(logs / f"{name}.log", broker.lines)
    return log, logs


def random_acl(chance: random.Random) -> Acl:
    return acl(
        chance.choice(("User:a", "User:b", "User:*")), chance.choice(("READ", "WRITE", "ALL")),
        topic=chance.choice(("a", "ab", "b", "*")), deny=chance.random() < 0.3,
        pattern=chance.choice(("LITERAL", "PREFIXED")), host=chance.choice(("*", "10.0.0.1")),
    )  # fmt: skip


def random_steps(chance: random.Random, count: int, seconds: float) -> list[Step]:
    """Return that many additions and removals, some at the same time."""
    live: dict[int, Acl] = {}
    steps = [Step(0)]
    for number in range(1, count + 1):
        new = random_acl(chance)
        if new in live.values() or len(live) > 12:
            change: AclAdded | AclRemoved = removed(gone := chance.choice(list(live)))
            del live[gone]
        else:
            live[number], change = new, added(number, new)
        steps.append(
            Step(round(chance.uniform(steps[-1].at_s, seconds * number / count), 1), (change,))
        )
    return steps


def random_question(chance: random.Random) -> Question:
    name, host = chance.choice(("a", "ab", "b", "c")), chance.choice(("10.0.0.1", "10.0.0.2"))
    return question(
        chance.choice(("User:a", "User:b")),
        chance.choice(("READ", "DESCRIBE")),
        topic=name,
        host=host,
    )
