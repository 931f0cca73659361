"""A topic as the input of ``authorizerd verify``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from authorizerd.cli.main import main
from authorizerd.protocol.verification import Cause
from tests.ops.replay.verify.mock_topic import KEPT_BYTES, MockTopic
from tests.ops.replay.verify.scripted_broker import (
    END_S,
    MORE,
    SETTINGS,
    STEPS,
    Broker,
    Step,
    causes,
    record,
    run,
    write_history,
    write_lines,
)
from tests.support.fixture_types import Capture


def figures(document: Any) -> object:  # noqa: ANN401 - a JSON document
    logs = {key: value for key, value in document["logs"].items() if key != "inputs"}
    return logs, document["agreed"], causes(document), document["not_judged"]


def test_records_are_read_as_the_lines_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Files and topics may be mixed. What Kafka has deleted does not count."""
    log_dir = write_history(tmp_path / "log", STEPS, END_S)
    lines = record(Broker((*STEPS[:2], Step(150, (MORE,)), *STEPS[2:]))).lines
    parts: list[list[str | None]] = [[*lines[number::4]] for number in range(3)]
    parts[0] += [None, "", "no audit line"]
    topic = MockTopic("audit", monkeypatch)
    padding = "x" * 100_000
    topic.feed([padding] * (KEPT_BYTES // len(padding) + 20), 3)
    for number, part in enumerate(parts):
        topic.feed(part, number)
    file = write_lines(tmp_path / "rest.log", lines[3::4])
    options = (file, "--log-dir", log_dir, *SETTINGS, "--max-bad-ratio", "1")
    code, document = run(capsys, "--logs", topic.uri, *options)
    assert code == 3
    kept = document["logs"]["lines"] - len(lines) - 3
    assert 0 < kept < KEPT_BYTES // len(padding) + 20
    assert document["logs"]["inputs"] == [str(file), topic.uri]
    every: list[list[str | None]] = [*parts, [padding] * kept]
    equal = [
        write_lines(tmp_path / f"{number}.log", [line or "" for line in part])
        for number, part in enumerate(every)
    ]
    assert figures(document) == figures(run(capsys, "--logs", *equal, *options)[1])
    (group,) = document["differences"]
    assert group["cause"] == Cause.HISTORY_LACKS
    wrong = next(at for at, line in enumerate(lines) if "User:c is Allowed" in line)
    partition, offset = wrong % 4, wrong // 4
    assert group["listed"][0]["line"] == (
        f"{file}:{offset + 1}" if partition == 3 else f"audit/{partition}@{offset}"
    )


def test_topic_without_records_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    log_dir = write_history(tmp_path / "log", STEPS, END_S)
    file = write_lines(tmp_path / "audit.log", record(Broker(STEPS)).lines)
    topic = MockTopic("audit", monkeypatch)
    topic.feed([""], 1)
    words = ("--logs", topic.uri, file, "--log-dir", log_dir, *SETTINGS)
    for more, expected in ((), 0), (("--newest-within", "40000d"), 5):
        code, document = run(capsys, *words, *more)
        assert (code, document["silent"]) == (expected, {"audit": None})


def test_missing_library_is_named(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "authorizerd.replay.verify.topic_client", raising=False)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    log_dir = write_history(tmp_path / "log", STEPS, END_S)
    words = ("--logs", "kafka://h:1/audit", "--log-dir", str(log_dir), *SETTINGS)
    assert main(["verify", *words]) == 1
    assert "needs confluent_kafka: install authorizerd[topics]" in capsys.readouterr().err
