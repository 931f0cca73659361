"""Audit lines that are written and read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.audit.caller import AuditedCaller
from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.decision import (
    DEFAULT_DENY,
    Decision,
    DefaultRule,
    MatchingAcl,
    NamedRule,
    Rule,
    UnjudgeableAcl,
)
from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.actors.audit_log import AuditEvent
from authorizerd.daemon.audit import lines
from authorizerd.daemon.audit.format import format_json, format_kafka
from authorizerd.daemon.audit.lines import Recorded, parse_lines
from tests.support.acls import acl

MARKERS = (" is Denied operation = ", " from host = ", " on resource = ", " for request = ")
CALLER_BEGIN = " (kafka.authorizer.logger) [knownBy="
NAMES = st.text(st.characters(codec="utf-8")) | st.sampled_from(
    (
        " is Denied operation = READ from host = 1 on resource = Topic:LITERAL:x for request = y",
        "User:a is Allowed operation = READ",
        " for request = Fetch with",
        " on resource = Topic:LITERAL:secret",
        '","allowed":false,"',
        " with resourceRefCount = 1 based on rule x (kafka.authorizer.logger)",
        f"x{CALLER_BEGIN}token caller=User:b address=1]",
    )
)
RULES: st.SearchStrategy[Rule] = st.sampled_from(
    (
        NamedRule("DefaultDeny"),
        DefaultRule.SUPER_USER,
        MatchingAcl(acl("User:a", topic=" based on rule ")),
        UnjudgeableAcl(acl("est", topic="t")),
    )
)
CALLERS = st.none() | st.builds(
    AuditedCaller,
    st.sampled_from(("token", "certificate", "trusted", "none", "SCRAM")),
    st.none() | NAMES,
    st.sampled_from(("unix", "10.0.0.1", "fe80:0:0:0:0:0:0:1%2")),
    st.none() | st.sampled_from(("a", "[]%20,=x")),
)


@st.composite
def events(draw: st.DrawFn) -> AuditEvent:
    """Return an event with any names, rule and rate."""
    question = Question(
        f"User:{draw(NAMES)}",
        draw(st.sampled_from((None, "10.0.0.1", "0:0:0:0:0:0:0:1"))),
        draw(st.sampled_from(list(Operation))),
        draw(st.sampled_from(list(ResourceType))),
        draw(NAMES),
    )
    return AuditEvent(
        draw(st.floats(0, 2e9)),
        draw(st.sampled_from(list(AuditLevel))),
        question,
        Decision(draw(st.booleans()), draw(RULES)),
        draw(st.sampled_from(("Fetch", "CreateTopics", "explain"))),
        7,
        draw(st.integers(1, 99)),
        sample_rate=draw(st.sampled_from((1.0, 0.01))),
        caller=draw(CALLERS),
    )


def expected_of(event: AuditEvent, *, time: str) -> Recorded:
    """Return what is read of an event whose names need no escapes."""
    question = event.question
    return Recorded(
        time,
        question.principal,
        question.host,
        Operation(question.operation).name,
        ResourceType(question.resource_type).name,
        question.resource_name,
        event.decision.allowed,
        event.request_name,
    )


@given(events())
def test_line_of_json_is_read_as_it_was_written(event: AuditEvent) -> None:
    (found,) = parse_lines([format_json(event)])
    assert found is not None
    assert found == expected_of(event, time=found.time)


@given(events())
def test_line_of_text_is_read_as_it_was_written_or_not_at_all(event: AuditEvent) -> None:
    """It is not read if a name has a text at which a name could end. Escapes stay escapes."""
    line = format_kafka(event)
    (found,) = parse_lines([line])
    question = event.question
    names = (question.principal, question.resource_name, str(event.decision.rule))
    ambiguous = (*MARKERS, " is Allowed", CALLER_BEGIN.strip())
    if any(marker in f" {name} " for name in names for marker in ambiguous):
        assert found is None or found.allowed is event.decision.allowed
    elif "".join(names).isprintable():
        assert found == expected_of(event, time=line[1:24].decode())
    else:
        assert found is not None
        assert f"Principal = {found.principal} is " in line.decode()
        assert f":LITERAL:{found.resource_name} for request = " in line.decode()


def event_of(name: str) -> AuditEvent:
    question = Question("User:a", "10.0.0.1", Operation.READ, ResourceType.TOPIC, name)
    return AuditEvent(1e9, AuditLevel.INFO, question, DEFAULT_DENY, "Fetch", 7)


@pytest.mark.parametrize("name", [f"x{marker}y" for marker in (*MARKERS, CALLER_BEGIN)])
def test_name_with_a_marker_leaves_the_line_unread(name: str) -> None:
    assert [*parse_lines([format_kafka(event_of(name))])] == [None]


@pytest.mark.parametrize("kind", ["SubjectSearch", "ResourceSearch", "ActionSearch"])
def test_line_of_a_search_is_no_decision(kind: str) -> None:
    for line in (format_json(event_of("x")), format_kafka(event_of("x"))):
        assert [*parse_lines([line.replace(b"Fetch", kind.encode())])] == []


def test_line_with_too_many_markers_is_not_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The match would take time with the cube of the line's length."""
    unit = (
        " is Denied operation = READ from host = h on resource = Topic:LITERAL:x"
        " for request = R with resourceRefCount = 1 based on rule y"
    )
    line = format_kafka(event_of(unit * 20)).removesuffix(b" (kafka.authorizer.logger)")
    monkeypatch.setattr(lines, "_LINE", None)  # any use of it fails
    assert [*parse_lines([line])] == [None]
