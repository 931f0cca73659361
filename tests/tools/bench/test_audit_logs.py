"""The generated audit logs."""

from collections import Counter
from datetime import UTC
from itertools import chain, pairwise
from pathlib import Path

import pyarrow
import pytest

from authorizerd.acl.audit.recorded.event import Event
from authorizerd.acl.audit.recorded.kafka_line import parse_kafka_line
from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Operation, ResourceType
from tools.bench.audit_logs import TRAFFIC, audit_lines, write_audit_log, write_audit_logs
from tools.bench.sets import number_acls


@pytest.mark.parametrize("name", TRAFFIC)
def test_log_is_reproducible_and_has_the_requested_length(tmp_path: Path, name: str) -> None:
    write_audit_log(tmp_path / "a.log", name, 2500, 100)
    write_audit_log(tmp_path / "b.log", name, 2500, 100)
    written = (tmp_path / "a.log").read_text()
    assert written == (tmp_path / "b.log").read_text()
    assert written.count("\n") == 2500


@pytest.mark.parametrize(("name", "ratio"), [("kind", 50), ("teams", 20)])
def test_every_line_is_a_decision_of_the_acls_in_order_of_time(name: str, ratio: int) -> None:
    events = []
    for line in chain.from_iterable(audit_lines(name, 3000, 1000)):
        event = parse_kafka_line(line, UTC)
        assert isinstance(event, Event)
        events.append(event)
    assert all(earlier.at_ms <= later.at_ms for earlier, later in pairwise(events))
    snapshot, settings = build(number_acls(TRAFFIC[name]().acls)), AuthorizerSettings()
    for event in events:
        assert event.allowed == authorize(
            snapshot,
            settings,
            event.principal,
            event.host,
            Operation[event.operation],
            ResourceType[event.resource_type],
            event.resource_name,
        )
    assert {event.allowed for event in events} == {True, False}
    counts = Counter((e.principal, e.host, e.operation, e.resource_name) for e in events)
    most = counts.most_common()
    assert most[0][1] > ratio * most[-1][1]


def test_packed_logs_are_one_log_with_consecutive_times(tmp_path: Path) -> None:
    paths = write_audit_logs(tmp_path, "kind", 2500, 1000, 1, 200, ".log.zst")
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
