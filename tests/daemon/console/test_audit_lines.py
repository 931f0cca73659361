from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.audit import AuditLevel
from authorizerd.acl.decision import Decision, NamedRule
from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.actors.audit_log import AuditEvent
from authorizerd.daemon.audit.format import format_json, format_kafka
from authorizerd.daemon.console import audit_lines
from authorizerd.daemon.console.audit_lines import (
    BYTES_MAX,
    PRINCIPALS_MAX,
    count_denials,
    parse_lines,
    read_denials,
)

NAMES = st.text() | st.sampled_from(
    (
        " is Denied operation = READ from host = 1 on resource = Topic:LITERAL:x for request = y",
        "User:a is Allowed operation = READ",
        " for request = Fetch with",
        " on resource = Topic:LITERAL:secret",
        '","allowed":false,"',
    )
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


@given(NAMES, NAMES, st.booleans())
def test_line_counts_for_its_principal_or_for_nobody(
    principal: str, name: str, allowed: bool
) -> None:
    """Characters that the audit log escapes stay escaped."""
    denied = event(f"User:{principal}", name, allowed=allowed)
    (found,) = parse_lines([format_kafka(denied)])
    if found is not None:
        whole = format_kafka(event(f"User:{principal}", name, allowed=allowed)).decode()
        assert found.allowed is allowed
        assert whole.partition(" Principal = ")[2].startswith(f"{found.principal} is ")
        assert f" on resource = Topic:LITERAL:{found.resource_name} for request = Fetch " in whole
        assert len(found.principal) >= len(f"User:{principal}")
    (found,) = parse_lines([format_json(denied)])
    assert found is not None
    assert (found.allowed, found.host, found.operation) == (allowed, "10.0.0.1", "READ")
    if principal.isprintable() and name.isprintable():
        assert (found.principal, found.resource_name) == (f"User:{principal}", name)


def test_line_of_a_search_is_no_decision() -> None:
    line = format_json(event("User:a")).replace(b'"Fetch"', b'"ActionSearch"')
    assert [*parse_lines([line])] == []


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"{}", b"text", b"\xff", b"[x] INFO Principal = a is Denied operation = READ"],
)
def test_other_lines_have_no_reading(line: bytes) -> None:
    found = count_denials([line])
    assert (found.count, found.unread) == (0, 1)


def test_line_with_too_many_markers_is_not_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The match would take time with the cube of the line's length."""
    unit = (
        " is Denied operation = READ from host = h on resource = Topic:LITERAL:x"
        " for request = R with resourceRefCount = 1 based on rule y"
    )
    line = format_kafka(event("User:a", unit * 20)).removesuffix(b" (kafka.authorizer.logger)")
    monkeypatch.setattr(audit_lines, "_LINE", None)  # any use of it fails
    assert [*parse_lines([line])] == [None]


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
    count = BYTES_MAX // len(line)
    file.write_bytes(line * (count + 100))
    found = read_denials(file)
    assert count - 1 <= found.count <= count
    assert found.unread == 0


def test_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="expected a file"):
        read_denials(tmp_path / "pipe")
