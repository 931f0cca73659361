"""The requests to change ACLs in audit lines: whose they are, and what cannot imitate one."""

import json
from datetime import UTC

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authorizerd.acl.audit.authors import AuditedRequest
from authorizerd.acl.audit.caller import AuditedCaller
from authorizerd.acl.audit.line import AuditLevel, audit_message
from authorizerd.acl.audit.mask import Masker, Masking
from authorizerd.acl.audit.recorded.event import Reason
from authorizerd.acl.audit.recorded.line import parse_line
from authorizerd.acl.audit.recorded.requests import LineFacts, read_facts
from authorizerd.acl.decision import Decision, DefaultRule
from authorizerd.acl.model import CLUSTER_NAME, Operation, Question, ResourceType
from authorizerd.actors.audit_log import AuditEvent
from authorizerd.config.values import AuditFormat
from authorizerd.daemon.audit.format import AuditFormatter, format_json, format_kafka
from authorizerd.daemon.audit.lines import parse_lines
from tests.acl.audit.recorded.hostile_lines import names

ALICE = "User:alice"
TIME_S = 1_795_278_386.966
TIME_MS = 1_795_278_386_966
FORMATS = {"kafka": format_kafka, "json": format_json}
DIRECT = AuditedCaller("SCRAM", ALICE, "10.0.0.1")
FORWARDED = AuditedCaller("certificate", "User:CN=broker 1", "10.0.0.9")


def event_of(
    principal: str = ALICE, *, request: str = "CreateAcls", allowed: bool = True,
    caller: AuditedCaller | None = None, written: int | None = None, name: str = CLUSTER_NAME,
    operation: Operation = Operation.ALTER,
) -> AuditEvent:  # fmt: skip
    return AuditEvent(
        TIME_S,
        AuditLevel.DEBUG if written is None else AuditLevel.INFO,
        Question(principal, "10.0.0.1", operation, ResourceType.CLUSTER, name),
        Decision(allowed, DefaultRule.SUPER_USER),
        request,
        3,
        caller=caller,
        written_offset=written,
    )


def request_of(
    principal: str = ALICE, *, creates: bool = True, via: str | None = None,
    written: int | None = None,
) -> AuditedRequest:  # fmt: skip
    return AuditedRequest(TIME_MS, creates, principal, via, written)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (event_of(), request_of()),
        (event_of(request="DeleteAcls"), request_of(creates=False)),
        (event_of(caller=DIRECT), request_of()),
        (event_of(caller=FORWARDED), request_of(via="User:CN=broker 1")),
        (event_of(caller=FORWARDED, written=7), request_of(via="User:CN=broker 1", written=7)),
        (event_of(request="DeleteAcls", written=7), request_of(creates=False, written=7)),
        (event_of("User:CN=a b,O=\u202ex]", written=7),
         request_of("User:CN=a b,O=\u202ex]", written=7)),
        (event_of(allowed=False), None),
        (event_of(request="DescribeAcls"), None),
        (event_of(operation=Operation.CLUSTER_ACTION), None),
        (event_of(name="other"), None),
        # A question about a change is none.
        (event_of(caller=AuditedCaller("token", "User:gateway", "10.0.0.9")), None),
        (event_of(caller=AuditedCaller("trusted", None, "unix")), None),
    ],
)  # fmt: skip
def test_request_is_read_from_the_daemons_line(
    format: str, event: AuditEvent, expected: AuditedRequest | None
) -> None:
    found = read_facts(FORMATS[format](event), UTC)
    assert found is not None
    assert found.at_ms == TIME_MS
    assert found.request == expected


@pytest.mark.parametrize("format", FORMATS)
def test_written_change_is_no_decision(format: str) -> None:
    line = FORMATS[format](event_of(written=7))
    assert parse_line(line, UTC) is Reason.EXPLANATION
    assert [*parse_lines([line])] == []


def test_line_is_read_in_the_wrapping_of_a_container() -> None:
    line = format_kafka(event_of(caller=FORWARDED)).decode()
    wrapped = json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "2026-11-21T17:00:00Z"})
    assert read_facts(wrapped.encode(), UTC) == LineFacts(
        TIME_MS, is_allowed=True, request=request_of(via="User:CN=broker 1")
    )


def test_heartbeat_is_recognized() -> None:
    line = format_kafka(event_of(request="BrokerHeartbeat", operation=Operation.CLUSTER_ACTION))
    assert read_facts(line, UTC) == LineFacts(TIME_MS, is_allowed=True, is_heartbeat=True)


@pytest.mark.parametrize(
    ("format", "masking"),
    [
        (AuditFormat.KAFKA, Masking.CUT),
        (AuditFormat.JSON, Masking.CUT),
        (AuditFormat.JSON, Masking.HASH),
    ],
)
@pytest.mark.parametrize("written", [None, 7])
def test_hidden_principal_is_no_author(
    format: AuditFormat, masking: Masking, written: int | None
) -> None:
    masker = Masker(
        principal=masking, host=Masking.NONE, resource=Masking.NONE, secret=b"0123456789abcdef"
    )
    assert read_facts(AuditFormatter(format, masker)(event_of(written=written)), UTC) is None


def test_text_after_a_written_change_leaves_the_line_unread() -> None:
    assert read_facts(f"{WRITTEN} x".encode(), UTC) is None


GROUP = " (kafka.authorizer.logger) [knownBy=SCRAM caller=User:bob address=10.0.0.1]"
WHOLE = audit_message(event_of("User:bob").question, event_of().decision, "CreateAcls")
WRITTEN = format_kafka(event_of("User:bob", written=7)).decode()


@given(names | st.sampled_from((GROUP, WHOLE, WRITTEN, f"x{GROUP}", f"x is Allowed {WHOLE}")))
@example(f"alice{GROUP}")
@example(WRITTEN)
def test_name_that_imitates_a_line_or_a_group_names_nobody_else(name: str) -> None:
    principal = f"User:{name}"
    for caller in (None, AuditedCaller("SCRAM", principal, "10.0.0.1")):
        for format_line in FORMATS.values():
            for written in (None, 7):
                line = format_line(event_of(principal, caller=caller, written=written))
                found = read_facts(line, UTC)
                if found is not None and found.request is not None:
                    assert found.request.by_way_of is None
                    assert found.request.principal in (principal, _escape(line, principal))
        # As a broker writes it; the name is another's, of a topic.
        message = audit_message(
            Question("User:eve", "10.0.0.1", Operation.READ, ResourceType.TOPIC, name),
            Decision(False, DefaultRule.DEFAULT_DENY),
            "Metadata",
        ).replace("\n", " ")
        found = read_facts(f"[2026-11-21 16:26:26,966] INFO {message}".encode(), UTC)
        assert found is None or found.request is None


def _escape(line: bytes, principal: str) -> str:
    """Return the principal as Kafka's format shows it, or the name itself if the line has it."""
    _, marker, rest = line.decode().partition(" DEBUG Principal = ")
    return rest[: rest.rindex(" is Allowed")] if marker and line[:1] == b"[" else principal
