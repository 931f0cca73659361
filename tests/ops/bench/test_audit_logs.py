"""The generated audit logs."""

from __future__ import annotations

from collections import Counter
from datetime import UTC
from itertools import chain, pairwise
from pathlib import Path

from authorizerd.acl.builder import build
from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.model import Operation, ResourceType
from authorizerd.replay.ingest.parse.event import Event
from authorizerd.replay.ingest.parse.kafka_line import parse_kafka_line
from ops.bench.audit_logs import audit_lines, write_audit_log
from ops.bench.sets import kind


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
    assert most[0][1] > 50 * most[-1][1]
