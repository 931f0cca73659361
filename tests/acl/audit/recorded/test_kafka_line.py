"""The lines that Kafka writes, and their times."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.audit.line import audit_message
from authorizerd.acl.audit.recorded.event import Event, Reason
from authorizerd.acl.audit.recorded.kafka_line import MARKERS, parse_kafka_line
from authorizerd.acl.audit.recorded.times import find_head, find_zone
from authorizerd.acl.decision import Decision, DefaultRule, MatchingAcl, Rule
from authorizerd.acl.model import Acl, Question
from tests.acl.audit.recorded.hostile_lines import names, plain_names

HEAD = "[2026-11-21 16:26:26,966] INFO "
SAYS = "Principal = User:alice is Denied Operation = DESCRIBE from host = 10.0.0.1 on resource = "
SAYS_NOW = SAYS.replace("Operation", "operation")  # since Kafka 3.2
RULE = (
    "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=*, patternType=LITERAL, "
    "principal=User:*, host=*, operation=ALL, permissionType=DENY])"
)
EVENT = Event(
    at_ms=1_795_278_386_966, allowed=False, principal="User:alice", host="10.0.0.1",
    operation="DESCRIBE", resource_type="TOPIC", resource_name="demo", pattern_type="LITERAL",
    request=None, reference_count=None, rule=None, level="INFO",
)  # fmt: skip


def changed(**fields: object) -> Event:
    return replace(EVENT, **fields)


SINGULAR = SAYS.replace("DESCRIBE", "{}")
DEMO = "Topic:LITERAL:demo"
FOR_REQUEST = f"{DEMO} for request = Metadata with resourceRefCount = 1"
LOGGER = " (kafka.authorizer.logger)"
COUNTED = changed(request="Metadata", reference_count=1)
ROUND_RULE = RULE.replace("[", "(").replace("]", ")")
DISTINGUISHED = "User:CN=a b,O=\"Ü, 名\" (x),C='y' is x"
CONFIGS = {"operation": "DESCRIBE_CONFIGS", "resource_type": "TRANSACTIONAL_ID"}
LAYOUTS = {
    "0.10, without pattern type": (HEAD + SINGULAR.format("Describe") + "Topic:demo", EVENT),
    "2.0": (HEAD + SAYS + DEMO + LOGGER, EVENT),
    "2.4": (HEAD + SAYS + FOR_REQUEST, COUNTED),
    "KRaft with the rule": (f"{HEAD}{SAYS_NOW}{FOR_REQUEST} based on rule {RULE}{LOGGER}",
        replace(COUNTED, rule=RULE)),
    "KRaft before 4, round brackets": (
        f"{HEAD}{SAYS_NOW}{FOR_REQUEST} based on rule {ROUND_RULE}{LOGGER}",
        replace(COUNTED, rule=ROUND_RULE),
    ),
    "Strimzi": (
        f"2026-11-21 16:26:26,966 INFO {SAYS}{DEMO}{LOGGER} [data-plane-kafka-request-handler-7]",
        EVENT,
    ),
    "Confluent": ("[INFO] 2026-11-21 16:26:26,966 [data-plane-kafka-request-handler-7] "
        f"kafka.authorizer.logger logAuditMessage - {SAYS}{DEMO}", EVENT),
    "CRI": (f"2026-11-21T17:00:00.966123456Z stdout F {HEAD}{SAYS}{DEMO}", EVENT),
    "only CRI's time": (f"2026-11-21T16:26:26.966123456Z stdout F INFO {SAYS}{DEMO}", EVENT),
    "compose": (f"kafka-1  | {HEAD}{SAYS}{DEMO}", EVENT),
    "with a zone": (f"[2026-11-21T17:26:26,966+0100] INFO {SAYS}{DEMO}", EVENT),
    "no level": (f"2026-11-21T16:26:26.966Z {SAYS}{DEMO}", changed(level="UNKNOWN")),
    "unknown host": (HEAD + SAYS.replace("10.0.0.1", "unknown") + DEMO, changed(host=None)),
    "names of two words": (
        HEAD + SINGULAR.format("DescribeConfigs") + "TransactionalId:PREFIXED:demo",
        changed(**CONFIGS, pattern_type="PREFIXED"),
    ),
    "name with a colon in the old layout": (HEAD + SAYS + "Group:a:b",
        changed(resource_type="GROUP", resource_name="a:b")),
    **{
        f"after the message: {tail!r}": (HEAD + SAYS + DEMO + tail, EVENT)
        for tail in (
            *(" (kafka.authorizer.logger:66)", " (k.a.logger)", " (logger)"),
            *(" (o.a.k.m.a.StandardAuthorizerData)", f"{LOGGER}\x1b[0m", f"{LOGGER}   "),
            f"{LOGGER} (org.apache.kafka.metadata.authorizer.StandardAuthorizerData)",
        )
    },
    "distinguished name": (HEAD + SAYS.replace("User:alice", DISTINGUISHED) + DEMO,
        changed(principal=DISTINGUISHED)),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_is_read(layout: str) -> None:
    line, event = LAYOUTS[layout]
    assert parse_kafka_line(line, UTC) == event


NO_ACL = "[2020-02-29 06:41:26,510] DEBUG No acl found for resource Topic:LITERAL:test"
SET_ASIDE = {
    NO_ACL: Reason.NO_DECISION,
    f"{SAYS}Topic:demo": Reason.NO_TIME,
    f"[16:26:26,966] INFO {SAYS}Topic:demo": Reason.NO_TIME,
    f"[2026-02-30 16:26:26,966] INFO {SAYS}Topic:demo": Reason.BAD_TIME,
    f"2026-11-21 16:26:26,966 CEST INFO {SAYS}Topic:demo": Reason.BAD_TIME,
    f"{HEAD}{SAYS}demo": Reason.UNKNOWN_LAYOUT,
    **{
        f"{HEAD}{SAYS}Topic:{pattern_type}{ending}": Reason.UNKNOWN_LAYOUT
        for pattern_type in ("ANY", "LITERAL")
        for ending in ("", " (kafka.authorizer.logger)")
    },
    **{
        f"{HEAD}{SAYS}{cut}": Reason.UNKNOWN_LAYOUT
        for cut in ("Cluster:L", "Topic:LITERA", "Group:PRE", "Group:", "Group:LITERAL:")
    },
    HEAD + SAYS.replace("DESCRIBE", "two words") + "Topic:demo": Reason.UNKNOWN_LAYOUT,
    f"{HEAD}Principal = User:a is Denied operation = REA": Reason.UNKNOWN_LAYOUT,
    f"2026-11-21T16:26:26Z stdout P {HEAD}{SAYS}Topic:de": Reason.PARTIAL_LINE,
}
AMBIGUOUS = (
    SAYS.replace("alice", "a is Allowed in") + "Topic:demo",
    SAYS.replace("alice", "a is Allowed b") + "Topic:demo",
    f"{SAYS}Topic:a for request = b for request = Metadata with resourceRefCount = 1",
    f"{SAYS}Topic:a for request = for request = Metadata with resourceRefCount = 1",
    f"{SAYS}Topic:a based on rule SuperUser",
    f"{SAYS}Topic:a for request = Meta",
    # The blank after the second verdict begins the logger's name.
    f"{SAYS}Topic:a for request = b with resourceRefCount = 1 based on rule A is Allowed "
    "(authorizer)",
)
SET_ASIDE |= {HEAD + line: Reason.AMBIGUOUS for line in AMBIGUOUS}
UNKNOWN_TAILS = (
    *(f"{LOGGER} {{}}", f"{LOGGER} - {{}} ", f"{LOGGER} extra", f'{LOGGER}","2022",kafka'),
    *(f"\x1b[0m{LOGGER}", f" {{}}{LOGGER}", f'"{LOGGER}', f"{LOGGER * 3}", "\x1b[0m", "  "),
    *('","2022"', " (k.a.other)", f"{LOGGER}\t[t] [t]"),
)
SET_ASIDE |= {
    f"{HEAD}{SAYS}{message}{tail}": Reason.UNKNOWN_ENDING
    for message in (
        *(DEMO, "Topic:demo", "Group:LITERAL:demo", FOR_REQUEST),
        *(f"{FOR_REQUEST} based on rule {rule}" for rule in (RULE, ROUND_RULE, "DefaultDeny")),
    )
    for tail in UNKNOWN_TAILS
    if tail != "  " or message == DEMO
}
SET_ASIDE |= {
    f"{HEAD}{SAYS}Topic:demo,2022": Reason.UNKNOWN_ENDING,
    f"{HEAD}{SAYS}Topic:demo=2022": Reason.UNKNOWN_ENDING,
    f"{HEAD}{SAYS}Group:demo,2022": Reason.UNKNOWN_ENDING,
    f"{HEAD}{SAYS}Group:demo\t2022": Reason.UNKNOWN_ENDING,
    f"{HEAD}{SAYS}{FOR_REQUEST}x": Reason.UNKNOWN_ENDING,
    HEAD + SAYS.replace("10.0.0.1", "10.0.0.1 via listener a") + DEMO: Reason.UNKNOWN_LAYOUT,
}


@pytest.mark.parametrize("line", SET_ASIDE)
def test_line_without_one_reading_is_set_aside(line: str) -> None:
    assert parse_kafka_line(line, UTC) is SET_ASIDE[line]


@pytest.mark.parametrize("kind", ["Topic", "Group"])
def test_cut_line_names_no_other_resource(kind: str) -> None:
    """A log ends in the middle of a line, and syslog cuts long ones."""
    line = f"{HEAD}{SAYS_NOW}{kind}:LITERAL:demo for request = Fetch with resourceRefCount = 12"
    whole = parse_kafka_line(line, UTC)
    assert isinstance(whole, Event)
    for end in range(len(line)):
        found = parse_kafka_line(line[:end], UTC)
        if line[:end].endswith("Count = 1"):
            assert found == replace(whole, reference_count=1)
        else:
            assert found in {Reason.NO_DECISION, Reason.UNKNOWN_LAYOUT}


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
    parsed = parse_kafka_line(f"{HEAD}{audit_message(question, decision, request)}{ending}", UTC)
    assert parsed is Reason.AMBIGUOUS or parsed == changed(
        principal=principal, host=host, resource_name=name, request=request, reference_count=1,
        rule=str(decision.rule),
    )  # fmt: skip
    ambiguous = (*MARKERS, "(kafka.authorizer.logger) [knownBy=")
    if not any(m.strip() in field for m in ambiguous for field in (principal, name, request)):
        assert isinstance(parsed, Event)


def read(text: str, zone: str = "UTC") -> str | None:
    head = find_head(text)
    at_ms = None if head is None else head.at_ms(find_zone(zone))
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


@pytest.mark.parametrize(("text", "zone", "expected"), [
    ("2026-07-01 12:00:00,000", "Europe/Berlin", "2026-07-01T10:00:00+00:00"),
    ("2026-07-01 12:00:00,000", "-05:30", "2026-07-01T17:30:00+00:00"),
    ("2026-07-01T12:00:00Z", "Europe/Berlin", "2026-07-01T12:00:00+00:00"),
    ("2026-07-01 12:00:00 +02", "UTC", "2026-07-01T10:00:00+00:00"),
    ("2026-07-01 12:00:00.9999", "UTC", "2026-07-01T12:00:00.999000+00:00"),
    ("2026-03-29 02:30:00", "Europe/Berlin", "2026-03-29T01:30:00+00:00"),
    ("2026-10-25 02:30:00", "Europe/Berlin", "2026-10-25T00:30:00+00:00"),
    ("2026-10-25 03:00:00", "Europe/Berlin", "2026-10-25T02:00:00+00:00"),
])  # fmt: skip
def test_time_is_read_in_its_own_zone_or_the_given_one(text: str, zone: str, expected: str) -> None:
    assert read(text, zone) == expected


@pytest.mark.parametrize("text", [
    "2026-02-29 00:00:00", "2026-01-01 24:00:00", "2026-01-01 00:00:00 CEST",
    "2026-01-01 00:00:00+19:00",
])  # fmt: skip
def test_impossible_time_gives_none(text: str) -> None:
    assert find_head(text) is not None
    assert read(text) is None


@pytest.mark.parametrize("text", ["", "12:00:00,000 INFO", "21/Nov/2026 12:00:00", "1795278386966"])
def test_time_without_a_day_is_not_found(text: str) -> None:
    assert find_head(text) is None


@pytest.mark.parametrize("name", ["Europe/Nowhere", "", "../etc/passwd", "+25:00", "CEST"])
def test_unknown_zone_is_named(name: str) -> None:
    with pytest.raises(ValueError, match="time zone"):
        find_zone(name)
