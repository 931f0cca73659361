"""The generated audit logs, and the checkpoints for the measurements of loading."""

from __future__ import annotations

from collections import Counter
from datetime import UTC
from itertools import chain, pairwise
from pathlib import Path

import pyarrow

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import AclAdded, Operation, ResourceType
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.replay import read_changes
from authorizerd.replay.ingest.parse.event import Event
from authorizerd.replay.ingest.parse.kafka_line import parse_kafka_line
from tests.support.fixture_types import MonkeyPatch
from tools.bench import checkpoint
from tools.bench.audit_logs import audit_lines, write_audit_log, write_audit_logs
from tools.bench.checkpoint import write_checkpoint, write_log
from tools.bench.in_memory import load
from tools.bench.sets import kind, wide


def test_log_is_reproducible_and_has_the_requested_length(tmp_path: Path) -> None:
    write_audit_log(tmp_path / "a.log", 2500, 100)
    write_audit_log(tmp_path / "b.log", 2500, 100)
    written = (tmp_path / "a.log").read_text()
    assert written == (tmp_path / "b.log").read_text()
    assert written.count("\n") == 2500


def test_every_line_is_a_decision_of_the_set_in_order_of_time() -> None:
    events = []
    for line in chain.from_iterable(audit_lines(3000, 1000)):
        event = parse_kafka_line(line, UTC)
        assert isinstance(event, Event)
        events.append(event)
    assert all(earlier.at_ms <= later.at_ms for earlier, later in pairwise(events))
    snapshot, settings = build(kind().added()), AuthorizerSettings()
    for event in events:
        assert event.allowed == authorize(
            snapshot, settings, event.principal, event.host, Operation[event.operation],
            ResourceType[event.resource_type], event.resource_name,
        )  # fmt: skip
    assert {event.allowed for event in events} == {True, False}
    counts = Counter((e.principal, e.host, e.operation, e.resource_name) for e in events)
    most = counts.most_common()
    assert most[0][1] > 50 * most[-1][1]


def test_packed_logs_are_one_log_with_consecutive_times(tmp_path: Path) -> None:
    paths = write_audit_logs(tmp_path, 2500, 1000, 1)
    logs = []
    for path in paths:
        with pyarrow.input_stream(str(path)) as file:
            logs.append(file.read().decode().splitlines())
    assert [len(log) for log in logs] == [1000, 1000, 500]
    lines = list(chain(*logs))
    times = [line[: line.index("]")] for line in lines]
    assert times == sorted(times)
    assert len(set(times)) == 2500
    assert [line[len(times[0]) :] for line in logs[0]] != [
        line[len(times[0]) :] for line in logs[1]
    ]


SET = wide(1000, 2)


def test_written_checkpoint_is_read_back(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, SET.added())
    read = [change for batch in read_changes(tmp_path) for change in batch.changes]
    assert sorted(read, key=lambda change: change.id) == sorted(
        SET.added(), key=lambda added: added.id
    )
    assert all(isinstance(change, AclAdded) for change in read)


def test_written_log_is_read_back_in_order(tmp_path: Path) -> None:
    write_log(tmp_path, SET.added())
    batches = [list(batch.changes) for batch in read_changes(tmp_path) if batch.changes]
    assert [change for changes in batches for change in changes] == list(SET.added())
    assert {len(changes) for changes in batches} == {checkpoint.ACLS_PER_REQUEST}


def test_batches_are_as_full_as_those_of_kafka(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "BATCH_BYTES_MAX", 10_000)
    write_checkpoint(tmp_path, SET.added())
    sizes = [len(each.placed.batch.data) for each in MetadataLog.open(tmp_path).batches()]
    assert len(sizes) > 10
    assert all(9_000 < size <= 10_000 for size in sizes[:-1])


def test_second_checkpoint_replaces_the_first(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, wide(2000, 2).added())
    path = write_checkpoint(tmp_path, SET.added())
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_loaded_checkpoint_has_the_acls_of_the_set(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, SET.added())
    assert load(tmp_path).acls == build(SET.added()).acls
