"""The decisions of the StandardAuthorizer. (Its answers are compared with Kafka's in tests/acl.)"""

from collections.abc import Callable
from functools import partial

import pytest

from authorizerd.acl.audit.filter import AuditFilter, AuditRules, name_patterns
from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.decision import DefaultRule
from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import finish
from authorizerd.actors.auditor import Auditor
from authorizerd.actors.authorizer import Action, RequestContext
from authorizerd.actors.daemon_authorizer import DecisionContext, DecisionCounts
from authorizerd.actors.published import Published
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from tests.support.acls import acl, question, snapshot_of
from tests.support.audit import RecordingAuditLog

LOADED = snapshot_of(acl("User:a", "READ", topic="t"), offset=9)


def new_authorizer(
    snapshot: AclSnapshot | None = LOADED, auditor: Auditor | None = None
) -> StandardAuthorizer:
    authorizer = StandardAuthorizer(Published(snapshot), auditor=auditor)
    authorizer.reconfigure({"super.users": "User:root"})
    return authorizer


def audited(
    level: AuditLevel, rules: AuditRules, events_max: int = 1000
) -> tuple[StandardAuthorizer, RecordingAuditLog]:
    log = RecordingAuditLog(events_max)
    auditor = Auditor(log, level=level, rules=rules, now_s=lambda: 12.5)
    return new_authorizer(auditor=auditor), log


def in_test(authorizer: StandardAuthorizer) -> DecisionContext:
    return DecisionContext("Test", authorizer.counts_of("Test"))


def authorize_in_test(authorizer: StandardAuthorizer) -> Callable[..., bool]:
    state = authorizer.current_state()
    return partial(authorizer.authorize_by(state, "Test"), state.snapshot, state.settings)


def by_type(principal: str) -> RequestContext:
    return RequestContext(principal=principal, host=None, request_name="Test")


def test_before_loading_only_super_users_are_answered() -> None:
    """KIP-801: others get AUTHORIZER_NOT_READY."""
    authorizer = new_authorizer(None)
    state, context = authorizer.current_state(), in_test(authorizer)
    assert authorizer.decide(state, question("User:root"), context).rule is DefaultRule.SUPER_USER
    topic = ResourceType.TOPIC
    assert finish(
        authorizer.authorize_by_resource_type(by_type("User:root"), Operation.READ, topic)
    )
    authorize = authorize_in_test(authorizer)
    assert authorize("User:root", None, Operation.READ, topic, "t")
    for ask in (
        lambda: authorizer.decide(state, question("User:a"), context),
        lambda: finish(authorizer.authorize_by_resource_type(by_type("User:a"), 3, topic)),
        lambda: authorize("User:a", None, Operation.READ, topic, "t"),
    ):
        with pytest.raises(NotReadyError, match=r"^the ACLs are not loaded yet$"):
            ask()
    assert authorizer.counts == {"Test": DecisionCounts(allowed=1, not_ready=1)}


def test_callers_are_told_why_there_is_no_snapshot() -> None:
    reason = "the ACLs are stale"
    authorizer = StandardAuthorizer(Published(None), why_no_snapshot=lambda: reason)
    assert authorizer.not_ready_reason == reason
    with pytest.raises(NotReadyError, match=reason):
        authorizer.decide(authorizer.current_state(), question("User:a"), in_test(authorizer))


def test_a_request_keeps_the_state_that_it_began_with() -> None:
    """A snapshot published meanwhile is for later requests."""
    published: Published[AclSnapshot | None] = Published(LOADED)
    authorizer = StandardAuthorizer(published)
    begun, context = authorizer.current_state(), in_test(authorizer)
    published.publish(snapshot_of(offset=10))
    assert authorizer.decide(begun, question("User:a"), context).allowed
    assert not authorizer.decide(authorizer.current_state(), question("User:a"), context).allowed
    assert (begun.offset, authorizer.current_state().offset) == (9, 10)


def test_every_question_is_counted_by_its_outcome() -> None:
    """This includes refused questions."""
    authorizer = new_authorizer()
    state, context = authorizer.current_state(), in_test(authorizer)
    authorizer.decide(state, question("User:a"), context)
    authorizer.decide(state, question("User:b"), context)
    with pytest.raises(InvalidQuestionError):
        authorizer.decide(state, question("User:*"), context)
    assert authorizer.counts == {"Test": DecisionCounts(allowed=1, denied=1, invalid=1)}


def test_audited_decisions_carry_time_offset_and_rule() -> None:
    """At INFO, only denials are recorded."""
    authorizer, log = audited(AuditLevel.INFO, AuditRules())
    state, context = authorizer.current_state(), in_test(authorizer)
    authorizer.decide(state, question("User:a"), context)
    denied = authorizer.decide(state, question("User:b"), context)
    assert [(event.time_s, event.offset, event.decision) for event in log.events] == [
        (12.5, 9, denied)
    ]


@pytest.mark.parametrize("level", AuditLevel)
@pytest.mark.parametrize("principal", ["User:a", "User:b", "User:root"])
def test_many_questions_are_audited_like_single_ones(level: AuditLevel, principal: str) -> None:
    """Each is sampled once, and recorded with the same rule, level and rate."""
    topic = ResourceType.TOPIC
    asked = Question(principal, "h", Operation.READ, topic, "t")
    is_allowed = principal != "User:b"
    events = []
    for is_fast in (True, False):
        authorizer, log = audited(level, AuditRules(allowed_rate=0.4))
        state, context = authorizer.current_state(), in_test(authorizer)
        authorize = authorize_in_test(authorizer)
        for _ in range(100):
            if is_fast:
                assert authorize(principal, "h", Operation.READ, topic, "t") is is_allowed
            else:
                authorizer.decide(state, asked, context)
        events.append(log.events)
        count = 0 if is_allowed and level is AuditLevel.INFO else 40 if is_allowed else 100
        assert len(log.events) == pytest.approx(count, abs=2 if is_allowed else 0)
        assert all(each.sample_rate == (0.4 if is_allowed else 1) for each in log.events)
        is_counted = is_allowed and level is not AuditLevel.INFO
        assert log.statistics.sampled == (100 - len(log.events) if is_counted else 0)
    assert events[0] == events[1]


def test_the_audit_filter_changes_no_decision() -> None:
    """Denials are audited whatever the filter says."""
    rules = AuditRules(filter=AuditFilter(principals_excluded=name_patterns(["User:*"])))
    authorizer, log = audited(AuditLevel.DEBUG, rules)
    state, context = authorizer.current_state(), in_test(authorizer)
    authorize = authorize_in_test(authorizer)
    for operation, allowed in ((Operation.READ, True), (Operation.WRITE, False)):
        assert authorizer.decide(state, question("User:a", operation), context).allowed is allowed
        assert authorize("User:a", None, operation, ResourceType.TOPIC, "t") is allowed
    assert [each.decision.allowed for each in log.events] == [False, False]
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
def test_a_question_by_resource_type_is_audited_by_its_probe(
    principal: str, operation: Operation, answer: bool, is_probe_allowed: bool, level: AuditLevel
) -> None:
    """Kafka's default implementation asks about a resource named hardcode, with count 0."""
    authorizer, log = audited(AuditLevel.TRACE, AuditRules())
    steps = authorizer.authorize_by_resource_type(by_type(principal), operation, ResourceType.TOPIC)
    assert finish(steps) is answer
    (event,) = log.events
    assert event.question == Question(principal, None, operation, ResourceType.TOPIC, "hardcode")
    assert (event.decision.allowed, event.level) == (is_probe_allowed, level)
    assert (event.request_name, event.resource_reference_count) == ("Test", 0)
    assert authorizer.counts == {}


@pytest.mark.parametrize("principal", ["User:a", "User:root"])
def test_nothing_is_decided_while_a_required_audit_cannot_be_written(principal: str) -> None:
    """This includes super users, and decisions that would not be audited."""
    authorizer, log = audited(AuditLevel.INFO, AuditRules(is_required=True))
    state, context = authorizer.current_state(), in_test(authorizer)
    asked, action = question(principal), Action(Operation.READ, ResourceType.TOPIC, "t")
    authorize = authorize_in_test(authorizer)
    pinned = authorizer.pinned()
    ways: list[Callable[[], object]] = [
        lambda: authorize(principal, None, Operation.READ, ResourceType.TOPIC, "t"),
        lambda: authorizer.decide(state, asked, context).allowed,
        lambda: finish(
            authorizer.authorize_by_resource_type(
                by_type(principal), Operation.READ, ResourceType.TOPIC
            )
        ),
        lambda: authorizer.authorize(by_type(principal), [action])[0],
        lambda: pinned(by_type(principal), [action])[0],
    ]
    assert authorizer.serves(principal)
    assert all(ask() for ask in ways)
    log.is_refusing = True
    assert not authorizer.serves(principal)
    for ask in ways:
        with pytest.raises(NotReadyError, match="the audit log is required, but cannot be written"):
            ask()
    assert authorizer.counts == {
        "Test": DecisionCounts(allowed=1, not_ready=1),
        "Kafka": DecisionCounts(allowed=2, not_ready=2),
    }
    assert authorizer.not_ready_reason == "the audit log is required, but cannot be written"


def test_the_decision_that_fills_a_required_audit_log_is_the_last() -> None:
    """No decision is made whose line would be dropped."""
    authorizer, log = audited(AuditLevel.INFO, AuditRules(is_required=True))
    authorize = authorize_in_test(authorizer)
    for _ in range(1000):
        assert not authorize("User:b", None, Operation.READ, ResourceType.TOPIC, "t")
    with pytest.raises(NotReadyError):
        authorize("User:b", None, Operation.READ, ResourceType.TOPIC, "t")
    assert (len(log.events), log.statistics.dropped) == (1000, 0)
