"""A real broker's traffic, asked again over HTTP at the state of its time.

The broker's audit log holds 13,117 decisions on principals other than its super user, made while
1,616 ACLs were in force: the state of the log before the first batch stamped after the last of
them. Every one must be answered alike, by the same rule.
"""

from __future__ import annotations

import lzma
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from authorizerd.metadata.log import MetadataLog
from tests.support.daemon_process import running

LINE = re.compile(
    r"\[(?P<time>[^]]+)\] \w+ Principal = (?P<principal>.+) is (?P<result>Allowed|Denied)"
    r" operation = (?P<operation>\w+) from host = (?P<host>\S+)"
    r" on resource = (?P<type>\w+):LITERAL:(?P<name>.*)"
    r" for request = \w+ with resourceRefCount = \d+ based on rule (?P<rule>.+)"
    r" \(kafka\.authorizer\.logger\)"
)
PER_REQUEST = 100


@dataclass(frozen=True)
class Recorded:
    time_ms: int
    evaluation: dict[str, Any]
    decision: bool
    rule: str


def recorded_of(line: str) -> Recorded | None:
    """Return the decision of a line, None where it is the super user's."""
    match = LINE.fullmatch(line)
    assert match is not None, line
    principal_type, _, name = match["principal"].partition(":")
    if match["principal"] == "User:admin":
        return None
    assert principal_type == "User"
    time = datetime.strptime(match["time"], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return Recorded(
        time_ms=round(time.timestamp() * 1000),
        evaluation={
            "subject": {"type": "user", "id": name},
            "action": {"name": match["operation"]},
            "resource": {
                "type": re.sub(r"(?<=[a-z])(?=[A-Z])", "_", match["type"]),
                "id": match["name"],
            },
            "context": {"host": match["host"]},
        },
        decision=match["result"] == "Allowed",
        rule=match["rule"],
    )


@pytest.fixture(scope="module")
def traffic(real_log_dir: Path) -> list[Recorded]:
    with lzma.open(real_log_dir / "kafka-authorizer.log.xz", "rt", encoding="utf-8") as lines:
        found = [recorded_of(line.rstrip("\n")) for line in lines]
    return [recorded for recorded in found if recorded is not None]


def log_until(real_log_dir: Path, time_ms: int, log_dir: Path) -> None:
    """Write the log as it stood before its first batch stamped after ``time_ms``."""
    segment = log_dir / METADATA_TOPIC_DIRECTORY / segment_name(0)
    segment.parent.mkdir(parents=True)
    segment.write_bytes((real_log_dir / METADATA_TOPIC_DIRECTORY / segment.name).read_bytes())
    later = (
        each.placed.position
        for each in MetadataLog.open(log_dir).batches()
        if each.placed.batch.base_timestamp_ms > time_ms
    )
    os.truncate(segment, next(later))


def test_every_decision_of_a_real_broker_is_made_again(
    tmp_path: Path, real_log_dir: Path, traffic: list[Recorded]
) -> None:
    """All 13,117, over HTTP; each tenth by a request of its own, the others by the hundred."""
    assert len(traffic) == 13_117
    log_until(real_log_dir, max(recorded.time_ms for recorded in traffic), tmp_path / "log")
    with running(tmp_path, tmp_path / "log", super_users="User:admin") as daemon:
        assert daemon.metric("authorizerd_acls") == 1616
        for start in range(0, len(traffic), PER_REQUEST):
            asked = traffic[start : start + PER_REQUEST]
            answer = daemon.evaluate(
                {"evaluations": [recorded.evaluation for recorded in asked]},
                path="/access/v1/evaluations",
            )
            for recorded, answered in zip(asked, answer.json["evaluations"], strict=True):
                assert answered["decision"] == recorded.decision, recorded
                assert answered["context"]["rule"] == recorded.rule, recorded
        for recorded in traffic[::10]:
            assert daemon.evaluate(recorded.evaluation).json["decision"] == recorded.decision
        code, errors = daemon.stop()
    assert code == 0, errors


def test_the_state_of_another_time_answers_otherwise(
    tmp_path: Path, real_log_dir: Path, traffic: list[Recorded]
) -> None:
    """At the end of the log 135 more ACLs are in force, and they change some of the answers."""
    directory = tmp_path / "log" / METADATA_TOPIC_DIRECTORY
    directory.mkdir(parents=True)
    for path in (real_log_dir / METADATA_TOPIC_DIRECTORY).iterdir():
        (directory / path.name).write_bytes(path.read_bytes())
    with running(tmp_path, tmp_path / "log", super_users="User:admin") as daemon:
        assert daemon.metric("authorizerd_acls") == 1751
        changed = 0
        for start in range(0, len(traffic), PER_REQUEST):
            asked = traffic[start : start + PER_REQUEST]
            answer = daemon.evaluate(
                {"evaluations": [recorded.evaluation for recorded in asked]},
                path="/access/v1/evaluations",
            )
            changed += sum(
                answered["decision"] != recorded.decision
                for recorded, answered in zip(asked, answer.json["evaluations"], strict=True)
            )
    assert 0 < changed < len(traffic)
