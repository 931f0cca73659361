from __future__ import annotations

import os
from pathlib import Path

import pytest

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.decision import Decision, NamedRule
from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.actors.audit_log import AuditEvent
from authorizerd.daemon.audit.format import format_json, format_kafka
from authorizerd.daemon.audit.lines import LAST_BYTES_MAX
from authorizerd.daemon.console.denials import (
    PRINCIPALS_MAX,
    count_denials,
    read_denials,
)


def event(principal: str, name: str = "orders", *, allowed: bool = False) -> AuditEvent:
    question = Question(principal, "10.0.0.1", Operation.READ, ResourceType.TOPIC, name)
    decision = Decision(allowed, NamedRule("DefaultDeny"))
    return AuditEvent(1e9, AuditLevel.INFO, question, decision, "Fetch", 7)


def lines_of(*events: AuditEvent) -> list[bytes]:
    return [*map(format_kafka, events), *map(format_json, events)]


def test_denials_are_counted_in_both_formats() -> None:
    found = count_denials(
        lines_of(
            event("User:b"),
            event("User:a", "x"),
            event("User:a", "y"),
            event("User:c", allowed=True),
        )
    )
    assert [(each.principal, each.count) for each in found.principals] == [
        ("User:a", 4),
        ("User:b", 2),
    ]
    assert (found.count, found.unread, found.others) == (6, 0, 0)
    assert found.principals[0].last.resource_name == "y"
    assert found.since is not None


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"{}", b"text", b"\xff", b"[x] INFO Principal = a is Denied operation = READ"],
)
def test_other_lines_have_no_reading(line: bytes) -> None:
    found = count_denials([line])
    assert (found.count, found.unread) == (0, 1)


def test_only_principals_with_the_most_denials_are_listed() -> None:
    found = count_denials(
        [format_json(event(f"User:{number:03}")) for number in range(PRINCIPALS_MAX + 5)]
        + [format_json(event("User:024"))]
    )
    assert found.principals[0].principal == "User:024"
    assert (len(found.principals), found.others) == (PRINCIPALS_MAX, 5)


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    line = format_json(event("User:a")) + b"\n"
    file = tmp_path / "audit.log"
    file.write_bytes(line * 5)
    assert read_denials(file).count == 5
    file.write_bytes(line * 5 + line[:-5])  # the last line is being written
    assert read_denials(file).count == 5
    count = LAST_BYTES_MAX // len(line)
    file.write_bytes(line * (count + 100))
    found = read_denials(file)
    assert count - 1 <= found.count <= count
    assert found.unread == 0


def test_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="expected a file"):
        read_denials(tmp_path / "pipe")
