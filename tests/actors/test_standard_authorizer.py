"""The StandardAuthorizer. (Its answers are compared with Kafka's in tests/acl.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from authorizerd.acl.audit import AuditLevel
from authorizerd.acl.audit_filter import AuditFilter, AuditRules, name_patterns
from authorizerd.acl.builder import build
from authorizerd.acl.decision import AuthorizerSettings, DefaultRule
from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.model import (
    Acl,
    AclAdded,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import finish
from authorizerd.actors.audit_log import AuditEvent, AuditLog
from authorizerd.actors.authorizer import Action, RequestContext, ServerInfo
from authorizerd.actors.decider import KAFKA_SURFACE, DecisionCounts
from authorizerd.actors.errors import EndpointStartError
from authorizerd.actors.published import Published
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from tests.actors.test_audit_log import Writer

READ_T = Acl(
    ResourceType.TOPIC,
    "t",
    PatternType.LITERAL,
    "User:a",
    "*",
    Operation.READ,
    PermissionType.ALLOW,
)


def new_authorizer(
    snapshot: AclSnapshot | None, audit_log: AuditLog | None = None
) -> tuple[StandardAuthorizer, Published[AclSnapshot | None]]:
    published = Published(snapshot)
    authorizer = StandardAuthorizer(published, audit_log=audit_log, now_s=lambda: 12.5)
    authorizer.configure({"super.users": "User:root"})
    return authorizer, published


def context(principal: str) -> RequestContext:
    return RequestContext(principal=principal, host=None, request_name="Test")


def keeping_log() -> tuple[AuditLog, list[AuditEvent]]:
    """Return a log at INFO, and the events that it has written."""
    seen: list[AuditEvent] = []

    def keep(event: AuditEvent) -> bytes:
        seen.append(event)
        return b"line"

    log = AuditLog(
        Writer(),
        level=AuditLevel.INFO,
        format_event=keep,
        events_max=10,
        on_failure=lambda error: None,
    )
    return log, seen


def ask(principal: str, name: str = "t") -> Question:
    return Question(principal, None, Operation.READ, ResourceType.TOPIC, name)


def test_before_loading_only_super_users_are_answered() -> None:
    """KIP-801: others get AUTHORIZER_NOT_READY, and the ACL count is -1."""
    authorizer, _ = new_authorizer(None)
    counts = authorizer.counts_of("Test")
    now = authorizer.current_state()
    assert authorizer.decide(now, ask("User:root"), "Test", counts).rule is DefaultRule.SUPER_USER
    with pytest.raises(NotReadyError):
        authorizer.decide(now, ask("User:a"), "Test", counts)
    with pytest.raises(NotReadyError):
        finish(authorizer.authorize_by_resource_type(context("User:a"), Operation.READ, 2))
    assert finish(authorizer.authorize_by_resource_type(context("User:root"), Operation.READ, 2))
    assert authorizer.acl_count() == -1
    assert [acl for some in authorizer.acls(AclFilter()) for acl in some] == []
    assert counts == DecisionCounts(allowed=1, not_ready=1)


def test_a_request_keeps_the_authority_it_began_with() -> None:
    """A snapshot published meanwhile is for later requests."""
    authorizer, published = new_authorizer(build([AclAdded(b"1" * 16, READ_T)]))
    counts = authorizer.counts_of("Test")
    begun = authorizer.current_state()
    published.publish(build([], offset=5))
    assert authorizer.decide(begun, ask("User:a"), "Test", counts).allowed
    assert [acl for some in authorizer.acls(AclFilter()) for acl in some] == []
    assert not authorizer.decide(authorizer.current_state(), ask("User:a"), "Test", counts).allowed
    assert (begun.offset, authorizer.current_state().offset) == (0, 5)
    assert authorizer.acl_count() == 0


def test_every_question_is_counted_by_how_it_ended() -> None:
    """By surface, the refused ones too."""
    authorizer, _ = new_authorizer(build([AclAdded(b"1" * 16, READ_T)]))
    counts = authorizer.counts_of("Test")
    authorizer.decide(authorizer.current_state(), ask("User:a"), "Test", counts)
    authorizer.decide(authorizer.current_state(), ask("User:b"), "Test", counts)
    with pytest.raises(InvalidQuestionError):
        authorizer.decide(authorizer.current_state(), ask("User:*"), "Test", counts)
    assert authorizer.counts == {"Test": DecisionCounts(allowed=1, denied=1, invalid=1)}


async def test_what_the_level_asks_for_reaches_the_audit_log() -> None:
    """At INFO a denial does, with its time, offset and rule; an allow does not."""
    log, seen = keeping_log()
    authorizer, _ = new_authorizer(build([AclAdded(b"1" * 16, READ_T)], offset=9), log)
    counts = authorizer.counts_of("Test")
    authorizer.decide(authorizer.current_state(), ask("User:a"), "Test", counts)
    decision = authorizer.decide(authorizer.current_state(), ask("User:b"), "Test", counts)
    log.close()
    await log.run()
    assert [(event.time_s, event.offset, event.decision) for event in seen] == [(12.5, 9, decision)]


async def test_kafkas_question_is_authorized_by_one_snapshot_and_audited_by_its_flags() -> None:
    """KIP-504: results in order; what is only a filter is not worth an INFO line."""
    log, seen = keeping_log()
    authorizer, _ = new_authorizer(build([AclAdded(b"1" * 16, READ_T)], offset=9), log)
    actions = [
        Action(Operation.READ, ResourceType.TOPIC, "t"),
        Action(Operation.READ, ResourceType.TOPIC, "u", resource_reference_count=3),
        Action(Operation.READ, ResourceType.TOPIC, "v", log_if_denied=False),
        Action(Operation.DESCRIBE, ResourceType.TOPIC, "t"),
    ]
    assert authorizer.authorize(context("User:a"), actions) == [True, False, False, True]
    log.close()
    await log.run()
    assert [(event.question.resource_name, event.resource_reference_count) for event in seen] == [
        ("u", 3)
    ]
    assert authorizer.counts["Kafka"] == DecisionCounts(allowed=2, denied=2)


SERVER = ServerInfo(
    cluster_id="c",
    node_id=1,
    endpoints={"EARLY": "h:1", "LATE": "h:2"},
    early_start_listeners=frozenset({"EARLY", "ELSEWHERE"}),
)


def test_early_endpoints_start_at_once_the_others_when_loaded() -> None:
    """Each completion ends exactly once, however often the end is told."""
    authorizer, _ = new_authorizer(None)
    started = authorizer.start(SERVER)
    assert {name: each.is_done for name, each in started.items()} == {"EARLY": True, "LATE": False}
    authorizer.complete_initial_load()
    authorizer.complete_initial_load(ValueError("later"))
    authorizer.close()
    assert [each.result() for each in started.values()] == [None, None]


def test_what_is_loaded_starts_every_endpoint() -> None:
    """There is nothing to wait for."""
    authorizer, _ = new_authorizer(build([]))
    assert all(each.is_done for each in authorizer.start(SERVER).values())


@pytest.mark.parametrize("closes", [True, False])
def test_endpoints_that_wait_fail_when_loading_does_or_the_authorizer_closes(closes: bool) -> None:
    """Early ones have started, and stay so."""
    authorizer, _ = new_authorizer(None)
    started = authorizer.start(SERVER)
    if closes:
        authorizer.close()
    else:
        authorizer.complete_initial_load(EndpointStartError("the log is broken"))
    assert started["EARLY"].result() is None
    with pytest.raises(EndpointStartError, match=r"closed before" if closes else "broken"):
        started["LATE"].result()


def test_it_is_reconfigured_between_requests() -> None:
    """A request that has begun keeps its settings; what cannot be taken changes nothing."""
    authorizer, _ = new_authorizer(build([]))
    begun = authorizer.current_state()
    settings = {"super.users": "User:new", "allow.everyone.if.no.acl.found": "true"}
    authorizer.validate_reconfiguration(settings)
    assert authorizer.current_state() == begun
    authorizer.reconfigure(settings)
    assert begun.settings == AuthorizerSettings(super_users=frozenset({"User:root"}))
    assert authorizer.current_state().settings == AuthorizerSettings(
        super_users=frozenset({"User:new"}), allow_everyone_if_no_acl_found=True
    )
    for take in (authorizer.validate_reconfiguration, authorizer.reconfigure):
        with pytest.raises(ValueError, match="root is not Type:name"):
            take({"super.users": "root"})
    assert authorizer.current_state().settings.allow_everyone_if_no_acl_found
    assert authorizer.reconfigurable_configs == set(settings)


def chosen_at(level: AuditLevel, rules: AuditRules) -> tuple[StandardAuthorizer, AuditLog]:
    """Return an authorizer of one ACL, and its log, which nobody writes."""
    log = AuditLog(
        Writer(),
        level=level,
        format_event=lambda event: b"",
        events_max=1000,
        on_failure=lambda error: None,
        rules=rules,
    )
    authorizer, _ = new_authorizer(build([AclAdded(bytes(16), READ_T)]), log)
    return authorizer, log


@pytest.mark.parametrize("level", AuditLevel)
@pytest.mark.parametrize("principal", ["User:a", "User:b", "User:root"])
async def test_many_questions_are_audited_as_each_by_itself(
    level: AuditLevel, principal: str
) -> None:
    """Once each, with the same rule, level and rate: a share is drawn once for a decision."""
    question = Question(principal, "h", Operation.READ, ResourceType.TOPIC, "t")
    rules = AuditRules(allowed_rate=0.4)
    events = []
    for is_fast in (True, False):
        authorizer, log = chosen_at(level, rules)
        state = authorizer.current_state()
        judge = authorizer.judge(state, "Test")
        for _ in range(100):
            if is_fast:
                judge(principal, "h", Operation.READ, ResourceType.TOPIC, "t")
            else:
                authorizer.decide(state, question, "Test", DecisionCounts())
        events.append(list(log._events))
        is_allowed = principal != "User:b"
        count = 0 if is_allowed and level is AuditLevel.INFO else 40 if is_allowed else 100
        assert len(log._events) == pytest.approx(count, abs=2 if is_allowed else 0)
        assert all(each.sample_rate == (0.4 if is_allowed else 1) for each in log._events)
        is_counted = is_allowed and level is not AuditLevel.INFO
        assert log.statistics.sampled == (100 - len(log._events) if is_counted else 0)
    assert events[0] == events[1]


async def test_what_is_filtered_is_decided_all_the_same() -> None:
    """By each way to ask; its denials are audited."""
    rules = AuditRules(filter=AuditFilter(principals_excluded=name_patterns(["User:*"])))
    authorizer, log = chosen_at(AuditLevel.DEBUG, rules)
    state = authorizer.current_state()
    judge = authorizer.judge(state, "Test")
    read, write = (
        Action(operation, ResourceType.TOPIC, "t")
        for operation in (Operation.READ, Operation.WRITE)
    )
    assert authorizer.authorize(context("User:a"), [read, write]) == [True, False]
    for operation, allowed in ((Operation.READ, True), (Operation.WRITE, False)):
        assert judge("User:a", None, operation, ResourceType.TOPIC, "t") is allowed
    assert [each.decision.allowed for each in log._events] == [False, False]
    assert log.statistics.filtered == 2


@pytest.mark.parametrize(
    ("principal", "operation", "answer", "is_probe_allowed", "level"),
    [
        ("User:root", Operation.READ, True, True, AuditLevel.DEBUG),
        ("User:a", Operation.READ, True, False, AuditLevel.TRACE),
        ("User:a", Operation.WRITE, False, False, AuditLevel.TRACE),
        ("User:b", Operation.READ, False, False, AuditLevel.TRACE),
    ],
)
async def test_a_question_by_resource_type_is_audited_by_its_probe(
    principal: str, operation: Operation, answer: bool, is_probe_allowed: bool, level: AuditLevel
) -> None:
    """Kafka's default implementation asks about a resource named hardcode, with count 0."""
    authorizer, log = chosen_at(AuditLevel.TRACE, AuditRules())
    steps = authorizer.authorize_by_resource_type(context(principal), operation, ResourceType.TOPIC)
    assert finish(steps) is answer
    (event,) = log._events
    assert event.question == Question(principal, None, operation, ResourceType.TOPIC, "hardcode")
    assert (event.decision.allowed, event.level) == (is_probe_allowed, level)
    assert (event.request_name, event.resource_reference_count) == ("Test", 0)
    assert KAFKA_SURFACE not in authorizer.counts


@pytest.mark.parametrize("pattern_type", [*PatternType, 99])
def test_an_action_on_a_pattern_that_is_not_literal_is_rejected(pattern_type: int) -> None:
    """Kafka throws the same text; a super user's action and one before loading are no exception."""
    for snapshot in (None, build([AclAdded(bytes(16), READ_T)])):
        authorizer, _ = new_authorizer(snapshot)
        action = Action(Operation.READ, ResourceType.TOPIC, "t", cast(PatternType, pattern_type))
        for authorize in (authorizer.authorize, authorizer.pinned()):
            if pattern_type == PatternType.LITERAL:
                assert authorize(context("User:root"), [action]) == [True]
                continue
            name = PatternType.read(pattern_type).name
            with pytest.raises(InvalidQuestionError, match=f"are supported. Got: {name}$"):
                authorize(context("User:root"), [action])
        counts = authorizer.counts[KAFKA_SURFACE]
        assert counts.invalid == (0 if pattern_type == PatternType.LITERAL else 2)


@pytest.mark.parametrize("principal", ["User:a", "User:root"])
async def test_nothing_is_answered_while_a_required_audit_cannot_be_kept(principal: str) -> None:
    """Super users and what would not be audited included; it is as before the ACLs are loaded."""
    authorizer, log = chosen_at(AuditLevel.INFO, AuditRules(is_required=True))
    state, counts = authorizer.current_state(), DecisionCounts()
    question = Question(principal, None, Operation.READ, ResourceType.TOPIC, "t")
    judge = authorizer.judge(state, "Test")
    pinned = authorizer.pinned()
    read = [Action(Operation.READ, ResourceType.TOPIC, "t")]
    asked: list[Callable[[], object]] = [
        lambda: judge(principal, None, Operation.READ, ResourceType.TOPIC, "t"),
        lambda: authorizer.decide(state, question, "Test", counts).allowed,
        lambda: authorizer.authorize(context(principal), read) == [True],
        lambda: finish(
            authorizer.authorize_by_resource_type(
                context(principal), Operation.READ, ResourceType.TOPIC
            )
        ),
        lambda: pinned(context(principal), read) == [True],
    ]
    assert authorizer.serves(principal)
    assert all(ask() for ask in asked)
    log.is_refusing = True
    assert not authorizer.serves(principal)
    for ask in asked:
        with pytest.raises(NotReadyError, match="the audit log is required, but cannot be written"):
            ask()
    assert counts == DecisionCounts(allowed=1, not_ready=1)


async def test_the_last_decision_that_finds_room_is_the_last_that_is_made() -> None:
    """Where the audit is required none is made that would have to be dropped."""
    authorizer, log = chosen_at(AuditLevel.INFO, AuditRules(is_required=True))
    judge = authorizer.judge(authorizer.current_state(), "Test")
    for _ in range(1000):
        assert not judge("User:b", None, Operation.READ, ResourceType.TOPIC, "t")
    with pytest.raises(NotReadyError):
        judge("User:b", None, Operation.READ, ResourceType.TOPIC, "t")
    assert (len(log._events), log.statistics.dropped) == (1000, 0)
