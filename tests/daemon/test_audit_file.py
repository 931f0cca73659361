from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acl.audit import AuditLevel, audit_message
from acl.decision import DEFAULT_DENY, Decision, MatchingAcl
from acl.model import Acl, Question
from actors.audit_log import AuditEvent
from daemon.audit_file import AuditFile, format_json, format_kafka

TIME_S = 1_795_278_585.2139


def event(name: str = "demo", decision: Decision = DEFAULT_DENY) -> AuditEvent:
    question = Question("User:alice", "127.0.0.1", 8, 2, name)
    return AuditEvent(TIME_S, AuditLevel.INFO, question, decision, "Metadata", 42, 3)


def test_kafkas_line_is_a_brokers() -> None:
    """Time in brackets, level, message, logger; the message is the one compared with Kafka's."""
    local = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(TIME_S))
    message = audit_message(event().question, DEFAULT_DENY, "Metadata", 3)
    assert format_kafka(event()).decode() == (
        f"[{local},213] INFO {message} (kafka.authorizer.logger)"
    )


@given(st.text(max_size=20))
def test_one_event_is_one_line_whatever_the_name(name: str) -> None:
    """A name cannot forge a line of its own, nor end one early."""
    assert len(format_kafka(event(name)).decode().splitlines()) == 1
    for line in (format_kafka(event(name)), format_json(event(name))):
        assert not re.search(rb"[\x00-\x1f]", line)


def test_json_says_the_same_in_fields() -> None:
    """UTC, and the ACL apart from the rule's name."""
    acl = Acl(2, "demo", 3, "User:alice", "*", 8, 2)
    assert json.loads(format_json(event(decision=Decision(False, MatchingAcl(acl))))) == {
        "time": "2026-11-21T16:29:45.213Z",
        "level": "INFO",
        "principal": "User:alice",
        "allowed": False,
        "operation": "DESCRIBE",
        "host": "127.0.0.1",
        "resource_type": "TOPIC",
        "resource_name": "demo",
        "request": "Metadata",
        "resource_reference_count": 3,
        "rule": "MatchingAcl",
        "acl": str(acl),
        "offset": 42,
    }
    assert json.loads(format_json(event()))["acl"] is None


async def test_lines_are_appended(tmp_path: Path) -> None:
    """What stood in the file stays; others than owner and group cannot read it."""
    path = tmp_path / "audit.log"
    for lines in ([b"one", b"two"], [b"three"]):
        file = AuditFile(str(path))
        await file.write(lines)
        file.close()
    assert path.read_bytes() == b"one\ntwo\nthree\n"
    assert path.stat().st_mode & 0o007 == 0


async def test_a_full_disk_is_an_error_to_the_writer() -> None:
    """The AuditLog counts what was lost."""
    file = AuditFile("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        await file.write([b"one"])
    file.close()
