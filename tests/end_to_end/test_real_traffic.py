"""Ask a real broker's questions again over HTTP, with the ACLs that were in force at that time.

The broker's audit log holds 13,117 decisions about principals other than its super user. All were
made while the same 1,616 ACLs were in force, so the log is cut before the first batch that is newer
than the last decision. The daemon must give the same answer to every question, by the same rule.
"""

import lzma
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from authorizerd.metadata.log import MetadataLog
from tests.support.daemon_process import DaemonProcess, running
from tests.support.recorded_decisions import Recorded, recorded_of
from tests.support.sizes import size

PER_REQUEST = 100


@pytest.fixture(scope="module")
def traffic(real_log_dir: Path) -> list[Recorded]:
    with lzma.open(real_log_dir / "kafka-authorizer.log.xz", "rt", encoding="utf-8") as lines:
        found = [recorded_of(line.rstrip("\n")) for line in lines]
    return [recorded for recorded in found if recorded is not None]


def log_until(real_log_dir: Path, time_ms: int, log_dir: Path) -> None:
    """Write the part of the log before its first batch with a time after ``time_ms``."""
    segment = log_dir / METADATA_TOPIC_DIRECTORY / segment_name(0)
    segment.parent.mkdir(parents=True)
    segment.write_bytes((real_log_dir / METADATA_TOPIC_DIRECTORY / segment.name).read_bytes())
    later = (
        each.placed.position
        for each in MetadataLog.open(log_dir).batches()
        if each.placed.batch.base_timestamp_ms > time_ms
    )
    os.truncate(segment, next(later))


def ask_all(daemon: DaemonProcess, traffic: list[Recorded]) -> Iterator[tuple[Recorded, Any]]:
    for start in range(0, len(traffic), PER_REQUEST):
        asked = traffic[start : start + PER_REQUEST]
        document = {"evaluations": [recorded.evaluation for recorded in asked]}
        answer = daemon.evaluate(document, path="/access/v1/evaluations")
        yield from zip(asked, answer.json["evaluations"], strict=True)


def test_every_decision_of_a_real_broker_is_repeated(
    tmp_path: Path, real_log_dir: Path, traffic: list[Recorded]
) -> None:
    """Ask all 13,117 in requests of a hundred, and some also in a single request."""
    assert len(traffic) == 13_117
    log_until(real_log_dir, max(recorded.time_ms for recorded in traffic), tmp_path / "log")
    with running(tmp_path, tmp_path / "log", super_users="User:admin") as daemon:
        assert daemon.metric("authorizerd_acls") == 1616
        for recorded, answered in ask_all(daemon, traffic):
            assert answered["decision"] == recorded.decision, recorded
            assert answered["context"]["rule"] == recorded.rule, recorded
        for recorded in traffic[:: size(100, 10)]:
            assert daemon.evaluate(recorded.evaluation).json["decision"] == recorded.decision
        code, errors = daemon.stop()
    assert code == 0, errors


def test_later_acls_change_some_decisions(
    tmp_path: Path, real_log_dir: Path, traffic: list[Recorded]
) -> None:
    """At the end of the log, 135 more ACLs are in force."""
    name = METADATA_TOPIC_DIRECTORY
    shutil.copytree(real_log_dir / name, tmp_path / "log" / name)
    asked = traffic[:: size(10, 1)]
    with running(tmp_path, tmp_path / "log", super_users="User:admin") as daemon:
        assert daemon.metric("authorizerd_acls") == 1751
        answers = ask_all(daemon, asked)
        changed = sum(answered["decision"] != recorded.decision for recorded, answered in answers)
    assert 0 < changed < len(asked)
