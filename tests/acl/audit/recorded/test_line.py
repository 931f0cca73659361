import json
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.audit.recorded.event import LINE_BYTES_MAX, Event, LineFormat, Reason
from authorizerd.acl.audit.recorded.line import parse_line
from authorizerd.acl.audit.recorded.wrapping import DOCKER_BYTES
from authorizerd.acl.decision import Decision, DefaultRule, MatchingAcl
from authorizerd.acl.model import Acl, Question
from authorizerd.actors.audit_log import AuditEvent
from authorizerd.daemon.audit.format import format_json, format_kafka
from authorizerd.replay.local.tallies import Tallies
from tests.acl.audit.recorded.hostile_lines import FORGED, bytes_lines

ACL = Acl(2, "a b", 3, "User:ü", "*", 3, 3)
AUDITED = AuditEvent(
    time_s=1_795_278_386.966, level=AuditLevel.DEBUG,
    question=Question("User:ü", None, 3, 2, "a b"), decision=Decision(True, MatchingAcl(ACL)),
    request_name="AuthZEN", resource_reference_count=2, offset=7,
)  # fmt: skip
EVENT = Event(
    at_ms=1_795_278_386_966, allowed=True, principal="User:ü", host=None, operation="READ",
    resource_type="TOPIC", resource_name="a b", pattern_type="LITERAL", request="AuthZEN",
    reference_count=2, rule=f"MatchingAcl(acl={ACL})", level="DEBUG",
)  # fmt: skip


def test_both_formats_of_the_daemon_give_the_same_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "authorizerd.daemon.audit.format._local_time", lambda _: "2026-11-21 16:26:26"
    )
    assert parse_line(format_kafka(AUDITED), UTC) == EVENT
    assert parse_line(format_json(AUDITED), UTC) == EVENT
    assert parse_line(b"\xef\xbb\xbf" + format_json(AUDITED), UTC) == EVENT


@pytest.mark.parametrize("line_format", ["auto", "json"])
def test_container_prefixes_are_removed(line_format: str) -> None:
    inner = format_json(AUDITED)
    docker = {"log": inner.decode() + "\n", "stream": "stdout", "time": "2026-11-21T17:00:00Z"}
    assert parse_line(json.dumps(docker, separators=(",", ":")).encode(), UTC) == EVENT
    assert parse_line(b"2026-11-21T17:00:00.9Z stdout F " + inner + b"\r", UTC) == EVENT


@pytest.mark.parametrize("line_format", ["auto", "kafka"])
@pytest.mark.parametrize(
    "prefix", ["", " \t", "\ufeff", "2026-11-21T17:00:00.9Z stdout F ", "kafka-1  | ", "[{}, "]
)
@pytest.mark.parametrize(
    "change", [{"principal": FORGED}, {"resource_name": FORGED}, {FORGED: 1}], ids=range(3)
)
def test_line_in_a_name_of_json_is_not_read(
    change: dict[str, object], prefix: str, line_format: LineFormat
) -> None:
    record = {"time": "2026-11-21T16:26:26.966Z", "principal": "User:b", "allowed": False}
    record |= {"operation": "READ", "resource_type": "TOPIC", "resource_name": "t"}
    parsed = parse_line(f"{prefix}{json.dumps(record | change)}]".encode(), UTC, line_format)
    assert parsed is Reason.AMBIGUOUS or not getattr(parsed, "allowed", False)
    forged = parse_line(f"{FORGED}t]".encode(), UTC, line_format)
    assert isinstance(forged, Event)
    assert forged.allowed


def test_line_without_a_time_gets_dockers() -> None:
    text = (
        "DEBUG Principal = User:a is Allowed Operation = Read from host = h on resource = Topic:t"
    )
    docker = {"log": text + "\n", "stream": "stdout", "time": "2026-11-21T16:26:26.966Z"}
    event = parse_line(json.dumps(docker, separators=(",", ":")).encode(), UTC)
    assert isinstance(event, Event)
    assert (event.at_ms, event.level) == (1_795_278_386_966, "DEBUG")


def test_partial_line_of_docker_is_set_aside() -> None:
    text = "Principal = User:a is Denied Operation = Read from host = h on resource = Topic:t"
    text = f"{' ' * DOCKER_BYTES}{text}"
    docker = {"log": text, "stream": "stdout", "time": "2026-11-21T16:26:26.966Z"}
    for log, expected in ((text + "\n", Event), (text, Reason)):
        parsed = parse_line(json.dumps(docker | {"log": log}, separators=(",", ":")).encode(), UTC)
        assert isinstance(parsed, expected)
    assert parsed is Reason.PARTIAL_LINE


DENIED = (
    "Principal = User:u is Denied operation = READ from host = 10.0.0.1 on resource = "
    "Topic:LITERAL:t for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny"
)
WHOLE = f"[2024-07-30 14:29:43,713] INFO {DENIED} (kafka.authorizer.logger)"
TIME = "2024-07-30T14:29:43.713Z"
LATER = "2024-07-30T14:29:44.000Z"
WRAPPERS: dict[str, dict[str, object]] = {
    "Docker": {"log": f"{WHOLE}\n", "stream": "stdout", "time": LATER},
    "Fluent Bit": {"date": 1722349784.0, "log": WHOLE, "logtag": "F", "kubernetes": {"log": "x"}},
    "Filebeat": {"@timestamp": LATER, "log": {"offset": 1}, "message": WHOLE},
    "Vector": {"message": WHOLE, "timestamp": LATER, "source_type": "file"},
    "Loki": {"labels": {"app": "kafka"}, "line": WHOLE, "timestamp": LATER},
    "Splunk": {"preview": False, "result": {"_raw": WHOLE, "_time": "2024-07-30T14:29:44.0+0000"}},
    "ECS": {"@timestamp": TIME, "log.level": "INFO", "message": DENIED, "log.logger": "k.a.l"},
    "JsonTemplateLayout": {
        "instant": {"epochSecond": 1722349783, "nanoOfSecond": 713000000}, "level": "INFO",
        "loggerName": "kafka.authorizer.logger", "message": DENIED, "endOfBatch": False,
    },
    "time first": {"time": LATER, "message": WHOLE},
    "time as text": {"instant": TIME, "level": "INFO", "message": DENIED},
}  # fmt: skip


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("outer", ["", "Vector", "CRI"])
def test_line_in_a_wrapper_is_read(wrapper: str, outer: str) -> None:
    """In lines and in tallies, which keep what has occurred."""
    text = json.dumps(WRAPPERS[wrapper], separators=(",", ":"))
    if outer == "Vector":
        text = json.dumps({"message": text, "timestamp": LATER})
    elif outer:
        text = f"{LATER} stdout F {text}"
    event = parse_line(WHOLE.encode(), UTC)
    assert isinstance(event, Event)
    assert parse_line(text.encode(), UTC) == event
    tallies = Tallies(UTC)
    tallies.add([text.encode()] * 2)
    ((_, tally),) = tallies
    assert (tally.lines, tally.first_ms, tally.last_ms) == (2, event.at_ms, event.at_ms)


@pytest.mark.parametrize(("record", "expected"), [
    ({"log": WHOLE, "message": f"{WHOLE} "}, Reason.AMBIGUOUS),
    ({"log": WHOLE, "logtag": "P"}, Reason.PARTIAL_LINE),
    ({"text": WHOLE}, Reason.BAD_JSON),
    ({"kubernetes": {"message": WHOLE}}, Reason.BAD_JSON),
    ({"message": WHOLE, "allowed": False}, Reason.BAD_JSON),
    ({"message": DENIED}, Reason.NO_TIME),
    ({"message": DENIED, "time": f"{TIME} Principal = "}, Reason.NO_TIME),
    ({"message": f"{WHOLE} x"}, Reason.UNKNOWN_ENDING),
])  # fmt: skip
def test_only_one_known_text_of_a_wrapper_is_read(record: object, expected: Reason) -> None:
    assert parse_line(json.dumps(record).encode(), UTC) is expected


@pytest.mark.parametrize(("record", "field", "expected"), [
    ({"msg": WHOLE}, "msg", Event),
    ({"time": LATER, "msg": WHOLE}, "msg", Event),
    ({"time": TIME, "level": "INFO", "msg": DENIED}, "msg", Event),
    ({"instant": "now", "msg": WHOLE}, "msg", Event),
    ({"event": {"original": WHOLE}, "message": "x"}, "event.original", Event),
    ({"event.original": WHOLE, "event": {"original": "x"}}, "event.original", Event),
    ({"event.original": None, "event": {"original": WHOLE}}, "event.original", Event),
    ({"a.b": {"c": WHOLE}, "a": {"b.c": "x"}}, "a.b.c", Event),
    ({"a": {"b.c": WHOLE}, "a.b": {"d": "x"}}, "a.b.c", Event),
    ({"preview": False, "result": {"msg": WHOLE}}, "msg", Event),
    ({"log": json.dumps({"msg": WHOLE}), "stream": "stdout"}, "msg", Event),
    ({"msg": json.dumps({"log": f"{WHOLE}\n", "stream": "stdout"})}, "msg", Event),
    ({"log": "x", "message": WHOLE}, "message", Event),
    ({"msg": f"{WHOLE} x"}, "msg", Reason.UNKNOWN_ENDING),
    ({"msg": WHOLE, "logtag": "P"}, "msg", Reason.PARTIAL_LINE),
    ({"message": WHOLE}, "msg", Reason.NO_LINE_FIELD),
    ({"log": "x", "message": WHOLE}, "msg", Reason.NO_LINE_FIELD),
    ({"allowed": True, "msg": WHOLE}, "msg", Reason.NO_LINE_FIELD),
    ({"event": WHOLE}, "event.original", Reason.NO_LINE_FIELD),
    ({"event": [{"original": WHOLE}]}, "event.original", Reason.NO_LINE_FIELD),
    ({"msg": {"log": WHOLE}}, "msg", Reason.NO_LINE_FIELD),
    ({"msg": ""}, "msg", Reason.NO_LINE_FIELD), ({"": WHOLE}, "msg", Reason.NO_LINE_FIELD),
    ([{"msg": WHOLE}], "msg", Reason.NO_LINE_FIELD), (WHOLE, "", Reason.NO_LINE_FIELD),
])  # fmt: skip
def test_only_the_named_field_holds_a_line(
    record: object, field: str, expected: type[Event] | Reason
) -> None:
    """In lines and in tallies, which keep what has occurred."""
    line = json.dumps(record, separators=(",", ":")).encode()
    parsed = parse_line(line, UTC, field=field)
    tallies = Tallies(UTC, field=field)
    tallies.add([line] * 2)
    ((counted, tally),) = tallies
    assert tally.lines == 2
    if expected is Event:
        assert parsed == parse_line(WHOLE.encode(), UTC)
        assert isinstance(parsed, Event)
        assert (tally.first_ms, tally.last_ms) == (parsed.at_ms, parsed.at_ms)
    else:
        assert parsed is counted is expected


def test_named_field_of_an_event_in_it_is_no_line() -> None:
    """The event has a key of the same name, whose text clients may choose."""
    record = {"time": "2026-11-21T16:26:26.966Z", "principal": "User:b", "allowed": False}
    record |= {"operation": "READ", "resource_type": "TOPIC", "resource_name": f"{FORGED}t]"}
    text = json.dumps(record)
    event = parse_line(text.encode(), UTC)
    assert isinstance(event, Event)
    for line, expected in (
        (text, Reason.NO_LINE_FIELD),
        (json.dumps({"log": text}), Reason.NO_LINE_FIELD),
        (json.dumps({"resource_name": text}), event),
    ):
        assert parse_line(line.encode(), UTC, field="resource_name") == expected


@pytest.mark.parametrize("line", [WHOLE.encode(), format_json(AUDITED)])
def test_line_without_the_named_field_is_set_aside(line: bytes) -> None:
    assert isinstance(parse_line(line, UTC), Event)
    assert parse_line(line, UTC, field="msg") is Reason.NO_LINE_FIELD


CONFLUENT: dict[str, Any] = {
    "specversion": "1.0", "type": "io.confluent.kafka.server/authorization", "time": TIME,
    "data": {
        "methodName": "kafka.Fetch", "authenticationInfo": {"principal": "User:u"},
        "authorizationInfo": {
            "granted": False, "operation": "DescribeConfigs", "resourceType": "TransactionalId",
            "resourceName": "t", "patternType": "LITERAL",
        },
        "requestMetadata": {"client_address": "/10.0.0.1"},
    },
}  # fmt: skip
CONFLUENT_EVENT = Event(
    at_ms=1722349783713, allowed=False, principal="User:u", host="10.0.0.1",
    operation="DESCRIBE_CONFIGS", resource_type="TRANSACTIONAL_ID", resource_name="t",
    pattern_type="LITERAL", request="Fetch", reference_count=None, rule=None, level="UNKNOWN",
)  # fmt: skip


def test_named_field_is_looked_up_only_once() -> None:
    """The event in it may have a key of the same name, whose text clients may choose."""
    text = json.dumps(CONFLUENT | {"subject": f"{FORGED}t]"})
    line = json.dumps({"subject": text}).encode()
    assert parse_line(line, UTC, field="subject") == CONFLUENT_EVENT


@pytest.mark.parametrize(("old", "new", "expected"), [
    ("", "", CONFLUENT_EVENT),
    ("false", "true", replace(CONFLUENT_EVENT, allowed=True)),
    ('"/10', '"h/10', CONFLUENT_EVENT),
    ('"/10.0.0.1"', "null", replace(CONFLUENT_EVENT, host=None)),
    ('"/10.0.0.1"', '"h"', replace(CONFLUENT_EVENT, host=None)),
    ('"granted": false', '"superUserAuthorization": true, "granted": true',
     replace(CONFLUENT_EVENT, allowed=True, rule="SuperUser")),
    *(("DescribeConfigs", other, Reason.OTHER_EVENT) for other in
      ("AccessWithToken", "DESCRIBE_CONFIGS", "describeconfigs", "All", "Any", "Unknown")),
    *(("TransactionalId", other, Reason.OTHER_EVENT) for other in
      ("Subject", "Transactionalid", "TRANSACTIONAL_ID", "Any")),
    ("kafka.Fetch", "mds.Authorize", Reason.OTHER_EVENT),
    ("server/authorization", "server/authentication", Reason.OTHER_EVENT),
    ("LITERAL", "PREFIXED", Reason.UNKNOWN_LAYOUT),
    ('"User:u"', '{"id": 1}', Reason.UNKNOWN_LAYOUT),
    ("2024-07-30T", "2024-13-30T", Reason.BAD_TIME), (TIME, "", Reason.NO_TIME),
    ("specversion", "version", Reason.BAD_JSON),
])  # fmt: skip
def test_audit_event_of_confluent_is_read(old: str, new: str, expected: Event | Reason) -> None:
    text = json.dumps(CONFLUENT).replace(old, new)
    assert parse_line(text.encode(), UTC) == expected
    assert parse_line(json.dumps({"message": text}).encode(), UTC) == expected


HEAD = "[2023-05-01 10:00:00,000] DEBUG "
LOGGER = " (kafka.authorizer.logger)"
SUPER = "principal = User:a is a super user, allowing operation without checking acls."
FOUND = (
    "operation = READ on resource = ResourcePattern(resourceType=TOPIC, name=t, "
    "patternType=LITERAL) from host = 10.0.0.1 is ALLOW based on acl = (principal=User:a, host=*, "
    "operation=READ, permissionType=ALLOW)"
)
EXPLAINED = (
    SUPER.replace(
        "is a super user", "belongs to super group Group:b"
    ),  # Confluent's LDAP authorizer
    *(SUPER, FOUND, "No acl found for resource Topic:LITERAL:t, authorized = false"),
    "operation = Write on resource = Topic:t from host = 10.0.0.1 is Allow based on acl = User:a "
    "has Allow permission for operations: Write from hosts: *",
)


@pytest.mark.parametrize("message", EXPLAINED)
@pytest.mark.parametrize("head", [
    HEAD, f"kafka-0  | {HEAD}", f"{LATER} stdout F {HEAD}", "2023-05-01 10:00:00,000 DEBUG [t-1] ",
    "[DEBUG] 2023-05-01 10:00:00,000 [t-1] kafka.authorizer.logger logAuthorization - ",
    f'{LATER} {{app="kafka"}} {HEAD}',
])  # fmt: skip
def test_explanation_is_no_bad_line(head: str, message: str) -> None:
    line = f"{head}{message}{LOGGER}"
    assert parse_line(line.encode(), UTC) is Reason.EXPLANATION
    assert parse_line(json.dumps({"log": line}).encode(), UTC) is Reason.EXPLANATION
    ecs = {"@timestamp": TIME, "log.level": "DEBUG", "message": message}
    assert parse_line(json.dumps(ecs).encode(), UTC) is Reason.EXPLANATION


@pytest.mark.parametrize("message", EXPLAINED)
@pytest.mark.parametrize("line", [
    DENIED.replace("User:u", "{}"), DENIED.replace("LITERAL:t", "LITERAL:{}"),
    "{}" + DENIED[len("Principal = "):], f"{{}} {DENIED}", "Principal = User:{}",
    f"User:{{}} {DENIED[18:]}", "Auth request Write on Topic:x by User {}", "x {}", "- {}",
    '{{"principal":"{}"', '[{{"name": "{}", "allowed": false', 'x "allowed": false, "name": "{}"',
])  # fmt: skip
def test_no_name_makes_a_decision_an_explanation(line: str, message: str) -> None:
    for name in (message, f"{HEAD}{message}", f"] {HEAD}{message}{LOGGER}"):
        # A container's own prefix may precede JSON, but an explanation as well.
        prefix = ("kafka-1  | ",) * ('"' in line)
        for head in (HEAD, HEAD.replace("DEBUG", "INFO"), f"{LATER} stdout F {HEAD}", *prefix):
            parsed = parse_line(f"{head}{line.format(name)}{LOGGER}".encode(), UTC)
            assert parsed is not Reason.EXPLANATION, (head, name)
    for head in ("", f"{LATER} stdout P {HEAD}", HEAD.replace("DEBUG", "INFO")):
        assert parse_line(f"{head}{message}".encode(), UTC) is Reason.NO_DECISION


@pytest.mark.parametrize(("line", "expected"), [
    (b"", None), (b" \t\r", None), (b"\xef\xbb\xbf", None), (b"\xff", Reason.NOT_UTF_8),
    (b"a" * (LINE_BYTES_MAX + 1), Reason.TOO_LONG), (b"Principal = \x01", Reason.CONTROL_CHARACTER),
    (b"{", Reason.BAD_JSON), (b'{"log":1}', Reason.BAD_JSON),
    (b'{"time":"2026-11-21T16:26:26Z","allowed":true}', Reason.BAD_JSON),
    (format_json(AUDITED)[:-1], Reason.BAD_JSON),
    (format_json(AUDITED).replace(b"true", b'"true"'), Reason.BAD_JSON),
    (format_json(AUDITED, masked=("host",)), Reason.MASKED),
    (format_json(AUDITED).replace(b"-11-21T", b"-11-21 at "), Reason.NO_TIME),
    (format_json(AUDITED).replace(b"-11-21T", b"-13-21T"), Reason.BAD_TIME),
])  # fmt: skip
def test_other_lines_have_a_reason(line: bytes, expected: Reason | None) -> None:
    assert parse_line(line, UTC) is expected


@given(bytes_lines | st.binary(max_size=60))
def test_any_bytes_are_an_event_blank_or_set_aside(line: bytes) -> None:
    assert isinstance(parse_line(line, UTC), Event | Reason | None)


def test_default_rule_is_kept_by_name() -> None:
    denied = AuditEvent(
        time_s=0.0, level=AuditLevel.INFO, question=Question("User:a", "h", 3, 2, "t"),
        decision=Decision(False, DefaultRule.DEFAULT_DENY), request_name="OPA",
        resource_reference_count=1, offset=1,
    )  # fmt: skip
    event = parse_line(format_json(denied).replace(b"1970", b"2070"), UTC)
    assert isinstance(event, Event)
    assert (event.rule, event.allowed, event.host) == ("DefaultDeny", False, "h")
