"""The Auditor: which decisions reach the audit log, and how the others are counted."""

import pytest

from authorizerd.acl.audit.caller import AuditedCaller
from authorizerd.acl.audit.filter import AuditFilter, AuditRules, name_patterns
from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.decision import DEFAULT_DENY, AuthorizerSettings
from authorizerd.acl.errors import NotReadyError
from authorizerd.acl.model import ResourceType
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.snapshot import with_rules
from authorizerd.actors.auditor import Auditor
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.daemon_authorizer import DecisionContext, DecisionCounts, DecisionState
from tests.support.acls import question, snapshot_of
from tests.support.audit import RecordingAuditLog

CONTEXT = DecisionContext("Test", DecisionCounts())


def new_auditor(level: AuditLevel = AuditLevel.DEBUG, rules: AuditRules | None = None) -> Auditor:
    return Auditor(
        RecordingAuditLog(), level=level, rules=rules or AuditRules(), now_s=lambda: 12.5
    )


def select(
    auditor: Auditor, allowed: bool, principal: str = "User:a", context: DecisionContext = CONTEXT
) -> AuditLevel | None:
    return auditor.select(allowed, principal, ResourceType.TOPIC, "t", context)


INFO, DEBUG, TRACE = AuditLevel.INFO, AuditLevel.DEBUG, AuditLevel.TRACE


@pytest.mark.parametrize(
    ("level", "allowed", "denied", "unlogged"),
    [
        (INFO, None, INFO, (None, None)),
        (DEBUG, DEBUG, INFO, (None, None)),
        (TRACE, DEBUG, INFO, (TRACE, TRACE)),
    ],
)
def test_level_selects_decisions(
    level: AuditLevel,
    allowed: AuditLevel | None,
    denied: AuditLevel | None,
    unlogged: tuple[AuditLevel | None, AuditLevel | None],
) -> None:
    """INFO, Kafka's default, records denials only; actions may lower their own level to TRACE."""
    auditor = new_auditor(level)
    assert (select(auditor, True), select(auditor, False)) == (allowed, denied)
    assert auditor.skips_allowed is (allowed is None)
    lowered = DecisionContext("Test", DecisionCounts(), log_if_allowed=False, log_if_denied=False)
    assert tuple(select(auditor, each, context=lowered) for each in (True, False)) == unlogged


def test_decisions_that_rules_leave_out_are_counted_by_reason() -> None:
    """Denials are neither filtered nor sampled, and filtered decisions are not sampled."""
    auditor = new_auditor()
    excluded = AuditFilter(principals_excluded=name_patterns(["User:broker*"]))
    auditor.reconfigure(DEBUG, AuditRules(filter=excluded, allowed_rate=0.25))
    selected = sum(select(auditor, True) is not None for _ in range(100))
    assert 23 <= selected <= 27
    assert not any(select(auditor, True, "User:broker-1") for _ in range(10))
    assert all(select(auditor, False, "User:broker-1") for _ in range(10))
    statistics = auditor.log.statistics
    assert (statistics.sampled, statistics.filtered) == (100 - selected, 10)
    auditor.reconfigure(DEBUG, AuditRules())
    assert all(select(auditor, True, "User:broker-1") for _ in range(10))


def test_reload_of_the_same_rate_continues_the_sampling() -> None:
    """Otherwise frequent reloads would always select the same first decisions."""
    rules = AuditRules(allowed_rate=0.3)
    one, other = (new_auditor(rules=rules) for _ in range(2))
    selected: list[list[bool]] = [[], []]
    for _ in range(50):
        other.reconfigure(DEBUG, rules)
        for auditor, each in zip((one, other), selected, strict=True):
            each.append(select(auditor, True) is not None)
    assert selected[0] == selected[1]


def test_required_audit_refuses_while_the_log_cannot_be_written() -> None:
    """``events_max`` is 1: the log is full after one event."""
    auditor = new_auditor(rules=AuditRules(is_required=True))
    state = DecisionState(snapshot_of(), AuthorizerSettings())
    auditor.check()
    auditor.audit(state, question("User:b"), DEFAULT_DENY, CONTEXT)
    with pytest.raises(NotReadyError, match="the audit log is required, but cannot be written"):
        auditor.check()
    auditor.reconfigure(DEBUG, AuditRules())
    auditor.check()


@pytest.mark.parametrize("rules", [RULES_4_3, RULES_4_4, ANY_RELEASE])
def test_event_names_the_releases_that_decided(rules: ReleaseRules) -> None:
    auditor = new_auditor()
    state = DecisionState(with_rules(snapshot_of(), rules), AuthorizerSettings())
    auditor.audit(state, question("User:b"), DEFAULT_DENY, CONTEXT)
    assert isinstance(auditor.log, RecordingAuditLog)
    assert [event.releases for event in auditor.log.events] == [rules.releases]


def test_written_change_is_recorded_at_any_level() -> None:
    """Neither a filter nor the sampling leaves it out."""
    excluded = AuditFilter(principals_excluded=name_patterns(["*"]), filters_denied=True)
    auditor = new_auditor(INFO, AuditRules(filter=excluded, allowed_rate=0.01))
    broker = RequestContext(principal="User:broker", host="10.0.0.9", request_name="Envelope")
    context = RequestContext(
        principal="User:a", host="10.0.0.1", request_name="CreateAcls", requester=broker
    )
    auditor.record_written(context, 7)
    assert isinstance(auditor.log, RecordingAuditLog)
    (event,) = auditor.log.events
    assert (event.written_offset, event.question.principal, event.request_name, event.level) == (
        7, "User:a", "CreateAcls", INFO,
    )  # fmt: skip
    assert event.caller == AuditedCaller("none", "User:broker", "10.0.0.9")
