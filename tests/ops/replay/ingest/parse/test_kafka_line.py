from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.audit import audit_message
from authorizerd.acl.decision import Decision, DefaultRule, MatchingAcl, Rule
from authorizerd.acl.model import Acl, Question
from authorizerd.replay.ingest.parse.event import Event, Reason
from authorizerd.replay.ingest.parse.kafka_line import MARKERS, parse_kafka_line
from tests.ops.replay.ingest.parse.hostile_lines import names, plain_names

HEAD = "[2026-11-21 16:26:26,966] INFO "
SAYS = "Principal = User:alice is Denied operation = DESCRIBE from host = 10.0.0.1 on resource = "
RULE = (
    "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=*, patternType=LITERAL, "
    "principal=User:*, host=*, operation=ALL, permissionType=DENY])"
)
EVENT = Event(
    at_ms=1_795_278_386_966,
    allowed=False,
    principal="User:alice",
    host="10.0.0.1",
    operation="DESCRIBE",
    resource_type="TOPIC",
    resource_name="demo",
    pattern_type="LITERAL",
    request=None,
    reference_count=None,
    rule=None,
    level="INFO",
)


def changed(**fields: object) -> Event:
    return Event(**{name: getattr(EVENT, name) for name in EVENT.__struct_fields__} | fields)


COUNTED = changed(request="Metadata", reference_count=1)
LAYOUTS = {
    "0.10, with the type alone": (
        HEAD + SAYS.replace("operation = DESCRIBE", "Operation = Describe") + "Topic:demo",
        EVENT,
    ),
    "2.0": (HEAD + SAYS + "Topic:LITERAL:demo (kafka.authorizer.logger)", EVENT),
    "2.4": (
        HEAD + SAYS + "Topic:LITERAL:demo for request = Metadata with resourceRefCount = 1",
        COUNTED,
    ),
    "KRaft with the rule": (
        HEAD
        + SAYS
        + "Topic:LITERAL:demo for request = Metadata with resourceRefCount = 1 based on rule "
        + f"{RULE} (kafka.authorizer.logger)",
        changed(request="Metadata", reference_count=1, rule=RULE),
    ),
    "KRaft before 4, round brackets": (
        HEAD
        + SAYS
        + "Topic:LITERAL:demo for request = Metadata with resourceRefCount = 1 based on rule "
        + RULE.replace("[", "(").replace("]", ")")
        + " (kafka.authorizer.logger)",
        changed(
            request="Metadata", reference_count=1, rule=RULE.replace("[", "(").replace("]", ")")
        ),
    ),
    "Strimzi": (
        "2026-11-21 16:26:26,966 INFO "
        + SAYS
        + "Topic:LITERAL:demo (kafka.authorizer.logger) [data-plane-kafka-request-handler-7]",
        EVENT,
    ),
    "CRI": ("2026-11-21T17:00:00.966123456Z stdout F " + HEAD + SAYS + "Topic:LITERAL:demo", EVENT),
    "CRI, whose time is the only one": (
        "2026-11-21T16:26:26.966123456Z stdout F INFO " + SAYS + "Topic:LITERAL:demo",
        EVENT,
    ),
    "compose": ("kafka-1  | " + HEAD + SAYS + "Topic:LITERAL:demo", EVENT),
    "with a zone": ("[2026-11-21T17:26:26,966+0100] INFO " + SAYS + "Topic:LITERAL:demo", EVENT),
    "no level": (
        "2026-11-21T16:26:26.966Z " + SAYS + "Topic:LITERAL:demo",
        changed(level="UNKNOWN"),
    ),
    "this daemon's, of no known host": (
        HEAD + SAYS.replace("10.0.0.1", "unknown") + "Topic:LITERAL:demo",
        changed(host=None),
    ),
    "types of two words": (
        HEAD
        + SAYS.replace("operation = DESCRIBE", "Operation = DescribeConfigs")
        + "TransactionalId:PREFIXED:demo",
        changed(
            operation="DESCRIBE_CONFIGS", resource_type="TRANSACTIONAL_ID", pattern_type="PREFIXED"
        ),
    ),
    "a name of the old layout with a colon": (
        HEAD + SAYS + "Group:a:b (c) [d]",
        changed(resource_type="GROUP", resource_name="a:b (c) [d]"),
    ),
    "a distinguished name": (
        HEAD
        + SAYS.replace("User:alice", "User:CN=a b,O=\"Ü, 名\" (x),C='y' is x")
        + "Topic:LITERAL:demo",
        changed(principal="User:CN=a b,O=\"Ü, 名\" (x),C='y' is x"),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_is_read(layout: str) -> None:
    line, event = LAYOUTS[layout]
    assert parse_kafka_line(line, UTC) == event


SET_ASIDE = {
    "[2020-02-29 06:41:26,510] DEBUG No acl found for resource Topic:LITERAL:test": (
        Reason.NO_DECISION
    ),
    SAYS + "Topic:demo": Reason.NO_TIME,
    "[16:26:26,966] INFO " + SAYS + "Topic:demo": Reason.NO_TIME,
    "[2026-02-30 16:26:26,966] INFO " + SAYS + "Topic:demo": Reason.BAD_TIME,
    "2026-11-21 16:26:26,966 CEST INFO " + SAYS + "Topic:demo": Reason.BAD_TIME,
    HEAD + SAYS + "demo": Reason.UNKNOWN_LAYOUT,
    HEAD + SAYS.replace("DESCRIBE", "two words") + "Topic:demo": Reason.UNKNOWN_LAYOUT,
    HEAD + "Principal = User:a is Denied operation = REA": Reason.UNKNOWN_LAYOUT,
    "2026-11-21T16:26:26Z stdout P " + HEAD + SAYS + "Topic:de": Reason.PARTIAL_LINE,
    HEAD + SAYS.replace("alice", "a is Allowed in") + "Topic:demo": Reason.AMBIGUOUS,
    HEAD + SAYS.replace("alice", "a is Allowed b") + "Topic:demo": Reason.AMBIGUOUS,
    HEAD + SAYS + "Topic:a for request = b for request = Metadata with resourceRefCount = 1": (
        Reason.AMBIGUOUS
    ),
    HEAD + SAYS + "Topic:a for request = for request = Metadata with resourceRefCount = 1": (
        Reason.AMBIGUOUS
    ),
    HEAD + SAYS + "Topic:a based on rule SuperUser": Reason.AMBIGUOUS,
    HEAD + SAYS + "Topic:a for request = Meta": Reason.AMBIGUOUS,
    # The blank after the second verdict is the logger's.
    HEAD
    + SAYS
    + "Topic:a for request = b with resourceRefCount = 1 based on rule A is Allowed (authorizer)": (
        Reason.AMBIGUOUS
    ),
}


@pytest.mark.parametrize("line", SET_ASIDE)
def test_ambiguous_line_is_set_aside(line: str) -> None:
    assert parse_kafka_line(line, UTC) is SET_ASIDE[line]


@given(
    principal=plain_names | names,
    name=plain_names | names,
    host=st.sampled_from(("10.0.0.1", None)),
    request=names,
    rule=st.sampled_from((*DefaultRule, None)),
    ending=st.sampled_from(("", " (kafka.authorizer.logger)")),
)
def test_no_name_changes_the_recorded_decision(
    principal: str, name: str, host: str | None, request: str, rule: Rule | None, ending: str
) -> None:
    acl = Acl(2, name, 3, principal, "*", 2, 2)
    decision = Decision(False, MatchingAcl(acl) if rule is None else rule)
    question = Question(principal, host, 8, 2, name)
    line = f"{HEAD}{audit_message(question, decision, request)}{ending}"
    parsed = parse_kafka_line(line, UTC)
    assert parsed is Reason.AMBIGUOUS or parsed == changed(
        principal=principal,
        host=host,
        resource_name=name,
        request=request,
        reference_count=1,
        rule=str(decision.rule),
    )
    if not any(m.strip() in field for m in MARKERS for field in (principal, name, request)):
        assert isinstance(parsed, Event)
