"""The StandardAuthorizer as listeners use it: KIP-504's methods."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, cast

import pytest
from msgspec.structs import replace

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.model import Acl, AclFilter, Operation, PatternType, ResourceType
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import finish
from authorizerd.actors.auditor import Auditor
from authorizerd.actors.authorizer import Action, Authentication, RequestContext, ServerInfo
from authorizerd.actors.completion import Completion
from authorizerd.actors.daemon_authorizer import KAFKA_SURFACE, DecisionCounts
from authorizerd.actors.errors import EndpointStartError
from authorizerd.actors.published import Expiring, Published
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.actors.updates import Updates
from tests.support.acls import acl, snapshot_of
from tests.support.audit import RecordingAuditLog
from tests.support.authorizers import server_endpoint

READ_T = acl("User:a", "READ", topic="t")
LOADED = snapshot_of(READ_T)
SERVER = ServerInfo(
    cluster_id="c",
    node_id=1,
    endpoints={name: server_endpoint(name) for name in ("EARLY", "LATE")},
    early_start_listeners=frozenset({"EARLY", "ELSEWHERE"}),
)


def new_authorizer(
    snapshot: AclSnapshot | None, auditor: Auditor | None = None
) -> tuple[StandardAuthorizer, Published[AclSnapshot | None]]:
    published = Published(snapshot)
    authorizer = StandardAuthorizer(published, auditor=auditor)
    authorizer.configure({"super.users": "User:root"})
    return authorizer, published


def context(principal: str) -> RequestContext:
    return RequestContext(principal=principal, host=None, request_name="Test")


def read(name: str, pattern_type: PatternType = PatternType.LITERAL) -> Action:
    return Action(Operation.READ, ResourceType.TOPIC, name, pattern_type)


def listed(authorizer: StandardAuthorizer) -> list[object]:
    return [each for some in authorizer.acls(AclFilter()) for each in some]


def test_acls_are_listed_and_counted_once_loaded() -> None:
    """KIP-801: the ACL count is -1 before."""
    authorizer, published = new_authorizer(None)
    assert (listed(authorizer), authorizer.acl_count()) == ([], -1)
    assert [authorizer.serves(each) for each in ("User:root", "User:a")] == [True, False]
    published.publish(LOADED)
    assert (listed(authorizer), authorizer.acl_count()) == ([READ_T], 1)
    assert authorizer.serves("User:a")


def test_acls_are_not_listed_while_decisions_are_stopped() -> None:
    """An empty list would tell a super user that there are none."""
    updates = cast(Updates, None)
    published: Published[AclSnapshot | None] = Published(None)
    authorizer = StandardAuthorizer(published, updates, why_no_snapshot=lambda: "the ACLs are old")
    with pytest.raises(NotReadyError, match="the ACLs are old"):
        listed(authorizer)
    published.publish(LOADED)
    assert listed(authorizer) == [READ_T]


def test_updates_learn_who_asks_for_them() -> None:
    """A daemon that forwards changes decides by how the caller authenticated."""
    asked: list[tuple[object, RequestContext]] = []

    class Recorded:
        def create(self, acls: Sequence[Acl], caller: RequestContext) -> Sequence[Completion[None]]:
            asked.append((acls, caller))
            return []

        delete: Any = create

    authorizer = StandardAuthorizer(Published(LOADED), cast(Updates, Recorded()))
    caller = replace(context("User:a"), authentication=Authentication.SCRAM)
    authorizer.create_acls(caller, [READ_T])
    authorizer.delete_acls(caller, [AclFilter()])
    assert asked == [([READ_T], caller), ([AclFilter()], caller)]


def test_actions_are_answered_in_order_and_audited_by_their_flags() -> None:
    """KIP-504: an action that only filters results gets no INFO line."""
    log = RecordingAuditLog()
    auditor = Auditor(log, level=AuditLevel.INFO, now_s=lambda: 0.0)
    authorizer, _ = new_authorizer(LOADED, auditor)
    actions = [
        read("t"),
        replace(read("u"), resource_reference_count=3),
        replace(read("v"), log_if_denied=False),
        Action(Operation.DESCRIBE, ResourceType.TOPIC, "t"),
    ]
    assert authorizer.authorize(context("User:a"), actions) == [True, False, False, True]
    ((name, count, request),) = (
        (event.question.resource_name, event.resource_reference_count, event.request_name)
        for event in log.events
    )
    assert (name, count, request) == ("u", 3, "Test")
    assert authorizer.counts[KAFKA_SURFACE] == DecisionCounts(allowed=2, denied=2)


def test_pinned_calls_use_one_snapshot() -> None:
    """A snapshot published between two calls is for later requests."""
    authorizer, published = new_authorizer(LOADED)
    pinned = authorizer.pinned()
    published.publish(snapshot_of(offset=5))
    assert pinned(context("User:a"), [read("t")]) == [True]
    assert authorizer.authorize(context("User:a"), [read("t")]) == [False]


def test_early_endpoints_start_at_once_and_the_others_when_loaded() -> None:
    """Each completion ends once, however often the end of the load is reported."""
    authorizer, _ = new_authorizer(None)
    started = authorizer.start(SERVER)
    assert {name: each.is_done for name, each in started.items()} == {"EARLY": True, "LATE": False}
    authorizer.complete_initial_load()
    authorizer.complete_initial_load(ValueError("later"))
    authorizer.close()
    assert [each.result() for each in started.values()] == [None, None]


def test_every_endpoint_starts_at_once_if_the_acls_are_loaded() -> None:
    authorizer, _ = new_authorizer(LOADED)
    assert all(each.is_done for each in authorizer.start(SERVER).values())


@pytest.mark.parametrize("closes", [True, False])
def test_waiting_endpoints_fail_if_loading_fails_or_the_authorizer_closes(closes: bool) -> None:
    """Early endpoints stay started."""
    authorizer, _ = new_authorizer(None)
    started = authorizer.start(SERVER)
    if closes:
        authorizer.close()
    else:
        authorizer.complete_initial_load(EndpointStartError("the log is broken"))
    assert started["EARLY"].result() is None
    with pytest.raises(EndpointStartError, match=r"closed before" if closes else "broken"):
        started["LATE"].result()


def test_settings_change_between_requests() -> None:
    """A request that has begun keeps its settings; invalid settings change nothing."""
    authorizer, _ = new_authorizer(LOADED)
    begun = authorizer.current_state()
    settings = {"super.users": "User:new", "allow.everyone.if.no.acl.found": "true"}
    authorizer.validate_reconfiguration(settings)
    assert authorizer.current_state() == begun
    authorizer.reconfigure(settings)
    assert begun.settings == AuthorizerSettings(super_users=frozenset({"User:root"}))
    changed = AuthorizerSettings(
        super_users=frozenset({"User:new"}), allow_everyone_if_no_acl_found=True
    )
    assert authorizer.current_state().settings == changed
    for apply in (authorizer.validate_reconfiguration, authorizer.reconfigure):
        with pytest.raises(ValueError, match="invalid entry 'root': expected Type:name"):
            apply({"super.users": "root"})
    assert authorizer.current_state().settings == changed
    assert authorizer.reconfigurable_configs == set(settings)


@pytest.mark.parametrize("pattern_type", [*PatternType, 99])
def test_an_action_on_a_pattern_that_is_not_literal_is_rejected(pattern_type: int) -> None:
    """This includes super users, and questions before loading. The text is Kafka's."""
    for snapshot in (None, LOADED):
        authorizer, _ = new_authorizer(snapshot)
        action = read("t", cast(PatternType, pattern_type))
        for authorize in (authorizer.authorize, authorizer.pinned()):
            if pattern_type == PatternType.LITERAL:
                assert authorize(context("User:root"), [action]) == [True]
                continue
            name = PatternType.read(pattern_type).name
            with pytest.raises(InvalidQuestionError, match=f"are supported. Got: {name}$"):
                authorize(context("User:root"), [action])
        counts = authorizer.counts[KAFKA_SURFACE]
        assert counts.invalid == (0 if pattern_type == PatternType.LITERAL else 2)


@pytest.mark.parametrize("is_expired", [False, True])
def test_request_that_outlives_its_state_gets_no_answer(is_expired: bool) -> None:
    """The process may be paused between any two steps. A newer state is for other requests."""
    now = 0.0
    published: Expiring[AclSnapshot] = Expiring(clock=lambda: now)
    published.publish_until(LOADED, 10.0)
    authorizer = StandardAuthorizer(published, why_no_snapshot=lambda: "too old")
    state, pinned = authorizer.current_state(), authorizer.pinned()
    steps = authorizer.authorize_by_resource_type(
        context("User:a"), Operation.WRITE, ResourceType.TOPIC
    )
    next(authorizer.acls(AclFilter()), None)
    asks: list[Callable[[], object]] = [
        lambda: pinned(context("User:a"), [read("t")]),
        lambda: authorizer.check_current(state),
        lambda: authorizer.check_ready(state),
    ]
    now = 10.0 if is_expired else 9.9
    published.publish_until(snapshot_of(offset=5), 20.0)
    assert authorizer.has_expired(state) is is_expired
    for ask in asks:
        with pytest.raises(NotReadyError, match="too old") if is_expired else nullcontext():
            ask()
    assert finish(steps) is False, "it has only begun now"


def test_super_users_are_answered_on_each_way_without_a_snapshot() -> None:
    """Before the load, and once the ACLs are too old: what they may do does not depend on ACLs."""
    authorizer = StandardAuthorizer(Expiring(deadline=-math.inf))
    authorizer.configure({"super.users": "User:root"})
    for authorize in (authorizer.authorize, authorizer.pinned()):
        assert authorize(context("User:root"), [read("t")]) == [True]
        with pytest.raises(NotReadyError):
            authorize(context("User:a"), [read("t")])
    assert not authorizer.has_expired(authorizer.current_state())


def test_answer_by_resource_type_ends_with_its_state() -> None:
    """Its steps may take long. The clock is read when it begins, and before it answers."""
    times = iter((0.0, 10.0, 10.0))
    published: Expiring[AclSnapshot] = Expiring(clock=lambda: next(times))
    published.publish_until(LOADED, 10.0)
    authorizer = StandardAuthorizer(published)
    steps = authorizer.authorize_by_resource_type(
        context("User:b"), Operation.READ, ResourceType.TOPIC
    )
    with pytest.raises(NotReadyError):
        finish(steps)
