"""Audit lines: their formats, and what is read back."""

import json
import sys
import time
from datetime import UTC
from unicodedata import category

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.audit.caller import AuditedCaller
from authorizerd.acl.audit.line import AuditLevel, audit_message
from authorizerd.acl.audit.mask import Masker, Masking
from authorizerd.acl.audit.recorded.event import Event
from authorizerd.acl.audit.recorded.kafka_line import MARKERS, parse_kafka_line
from authorizerd.acl.audit.recorded.line import parse_json
from authorizerd.acl.decision import (
    DEFAULT_DENY,
    Decision,
    DefaultRule,
    MatchingAcl,
    NamedRule,
    Rule,
    UnjudgeableAcl,
)
from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from authorizerd.actors.audit_log import AuditEvent
from authorizerd.config.values import AuditFormat
from authorizerd.daemon.audit.format import KAFKA_ESCAPES, AuditFormatter, format_json, format_kafka
from authorizerd.daemon.audit.lines import Recorded, parse_lines
from tests.support.acls import acl

ESCAPED = {"Cc", "Cf", "Zl", "Zp"}
TIME_S = 1_795_278_585.2139


def event(name: str = "demo", decision: Decision = DEFAULT_DENY) -> AuditEvent:
    question = Question("User:alice", "127.0.0.1", 8, 2, name)
    return AuditEvent(TIME_S, AuditLevel.INFO, question, decision, "Metadata", 42, 3)


def event_of(name: str) -> AuditEvent:
    """Return an event with the name in every field that a client or an ACL can set."""
    rule = MatchingAcl(Acl(2, name, 3, f"User:{name}", name, 3, 2))
    question = Question(f"User:{name}", name, 8, 2, name)
    return AuditEvent(TIME_S, AuditLevel.INFO, question, Decision(False, rule), name, 42, 3)


def test_kafkas_format_is_that_of_a_broker() -> None:
    """A line has time, level, message and logger. Other tests compare the message with Kafka's."""
    local = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(TIME_S))
    message = audit_message(event().question, DEFAULT_DENY, "Metadata", 3)
    assert format_kafka(event()).decode() == (
        f"[{local},213] INFO {message} (kafka.authorizer.logger)"
    )


def test_every_misleading_character_has_an_escape() -> None:
    """Those that the next release of Unicode adds as well."""
    wanted = {code for code in range(sys.maxunicode + 1) if category(chr(code)) in ESCAPED}
    assert set(KAFKA_ESCAPES) == wanted


MISLEADING = "\n\r\0\x1b\x7f\x85\x9b\xad\u200b\u200e\u2028\u2029\u202e\u2066\ufeff\U000e0041"


@given(st.text(st.sampled_from(MISLEADING) | st.characters(codec="utf-8")))
def test_misleading_characters_are_escaped(name: str) -> None:
    """Control and format characters and line separators are escaped in each field; no others."""
    for line in (format_kafka(event_of(name)), format_json(event_of(name))):
        assert not set(map(category, line.decode())) & ESCAPED
    harmless = "".join(one for one in name if category(one) not in ESCAPED)
    assert f":LITERAL:{harmless} for request" in format_kafka(event(harmless)).decode()


@given(st.text(st.sampled_from(MISLEADING + 'a"\\é\xa0\U0001f600'), max_size=8))
def test_escapes_can_be_replayed(name: str) -> None:
    """From JSON the name is restored. In Kafka's format the escape becomes part of the name."""
    from_json = parse_json(format_json(event(name)).decode(), UTC)
    assert isinstance(from_json, Event)
    assert from_json.resource_name == name
    from_kafka = parse_kafka_line(format_kafka(event(name)).decode(), UTC)
    assert isinstance(from_kafka, Event)
    assert from_kafka.resource_name.isascii() or not set(MISLEADING) & set(from_kafka.resource_name)
    assert (from_kafka.resource_name == name) == (not set(MISLEADING) & set(name))


@pytest.mark.parametrize(
    ("character", "in_kafka", "in_json"),
    [
        ("\n", "\\n", "\\n"),
        ("\t", "\\x09", "\\t"),
        ("\x7f", "\\x7f", "\\u007f"),
        ("\x9b", "\\x9b", "\\u009b"),
        ("\u202e", "\\u202e", "\\u202e"),
        ("\u2028", "\\u2028", "\\u2028"),
        ("\U000e0041", "\\U000e0041", "\\udb40\\udc41"),
    ],
)
def test_an_escape_shows_the_characters_code(character: str, in_kafka: str, in_json: str) -> None:
    """The escape is the character's code, or the usual escape of Java and JSON."""
    assert f":LITERAL:a{in_kafka}b for" in format_kafka(event(f"a{character}b")).decode()
    assert f'"resource_name":"a{in_json}b"' in format_json(event(f"a{character}b")).decode()


def test_json_has_the_same_fields() -> None:
    """The time is in UTC, and the ACL is apart from the rule's name."""
    acl = Acl(2, "demo", 3, "User:alice", "*", 8, 2)
    assert json.loads(format_json(event(decision=Decision(False, MatchingAcl(acl))))) == {
        "version": 1,
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
        "sample_rate": 1.0,
        "masked": [],
        "caller": None,
        "known_by": None,
        "caller_address": None,
        "request_id": None,
        "traceparent": None,
        "kafka_releases": [],
    }
    assert json.loads(format_json(event()))["acl"] is None


@pytest.mark.parametrize("rate", [1.0, 0.01])
@pytest.mark.parametrize("kind", [MatchingAcl, UnjudgeableAcl])
def test_both_formats_can_be_replayed(
    rate: float, kind: type[MatchingAcl] | type[UnjudgeableAcl]
) -> None:
    """The rate and unknown fields are ignored."""
    acl = Acl(2, "demo", 3, "User:alice", "*", 8, 2)
    sampled = msgspec.structs.replace(event(decision=Decision(True, kind(acl))), sample_rate=rate)
    from_json = parse_json(format_json(sampled).decode(), UTC)
    from_kafka = parse_kafka_line(format_kafka(sampled).decode(), UTC)
    for read in (from_json, from_kafka):
        assert isinstance(read, Event)
        assert read.principal == "User:alice"
        assert read.rule == f"{kind.__name__}(acl={acl})"


def test_a_sampled_line_has_its_rate() -> None:
    """With the rate, counts can be scaled. Lines that are not sampled equal Kafka's."""
    sampled = msgspec.structs.replace(event(), sample_rate=0.01)
    assert json.loads(format_json(sampled))["sample_rate"] == 0.01
    assert format_kafka(sampled) == format_kafka(event()) + b" [sampleRate=0.01]"


@pytest.mark.parametrize("format", AuditFormat)
def test_hidden_names_are_in_no_format(format: AuditFormat) -> None:
    """The rule hides them too, and JSON lists them. A new secret applies from the next line."""

    def masker(secret: bytes) -> Masker:
        return Masker(
            principal=Masking.HASH, host=Masking.CUT, resource=Masking.HASH, secret=secret
        )

    acl = Acl(2, "demo", 3, "User:alice", "127.0.0.1", 8, 2)
    denied = event(decision=Decision(False, MatchingAcl(acl)))
    formatter = AuditFormatter(format, masker(b"one"))
    line = formatter(denied)
    for hidden in (b"alice", b"127.0.0.1", b"demo"):
        assert hidden not in line
    if format is AuditFormat.JSON:
        assert json.loads(line)["masked"] == ["principal", "host", "resource"]
    formatter.masker = masker(b"two")
    assert formatter(denied) != line


@pytest.mark.parametrize("format", AuditFormat)
def test_nothing_is_hidden_by_default(format: AuditFormat) -> None:
    plain = {AuditFormat.JSON: format_json, AuditFormat.KAFKA: format_kafka}[format]
    assert AuditFormatter(format, None)(event()) == plain(event())


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
        draw(st.floats(1e9, 2e9)),
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
    ambiguous = (*MARKERS, CALLER_BEGIN.strip())
    if any(marker in f" {name} " for name in names for marker in ambiguous):
        assert found is None or found.allowed is event.decision.allowed
    elif "".join(names).isprintable():
        assert found == expected_of(event, time=line[1:24].decode())
    else:
        assert found is not None
        assert f"Principal = {found.principal} is " in line.decode()
        assert f":LITERAL:{found.resource_name} for request = " in line.decode()


def denied_event(name: str) -> AuditEvent:
    question = Question("User:a", "10.0.0.1", Operation.READ, ResourceType.TOPIC, name)
    return AuditEvent(1e9, AuditLevel.INFO, question, DEFAULT_DENY, "Fetch", 7)


@pytest.mark.parametrize("name", [f"x{marker}y" for marker in (*MARKERS, CALLER_BEGIN)])
def test_name_with_a_marker_leaves_the_line_unread(name: str) -> None:
    assert [*parse_lines([format_kafka(denied_event(name))])] == [None]


@pytest.mark.parametrize("kind", ["SubjectSearch", "ResourceSearch", "ActionSearch"])
def test_line_of_a_search_is_no_decision(kind: str) -> None:
    for line in (format_json(denied_event("x")), format_kafka(denied_event("x"))):
        assert [*parse_lines([line.replace(b"Fetch", kind.encode())])] == []
