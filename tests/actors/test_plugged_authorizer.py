"""An authorizer of somebody else's making: whatever it does, nobody is let in for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import pytest

from acl.errors import InvalidQuestionError, NotReadyError
from acl.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from acl.snapshot import AclSnapshot
from acl.steps import finish
from acl.updates import Deleted
from actors.authorizer import Action, Authorize, Authorizer, RequestContext, ServerInfo
from actors.completion import Completion
from actors.decider import DecisionCounts
from actors.errors import AuthorizerFaultError, EndpointStartError, SecurityDisabledError
from actors.no_authorizer import NoAuthorizer
from actors.plugged_authorizer import PluggedAuthorizer
from actors.published import Published

CONTEXT = RequestContext(principal="User:a", host="10.0.0.1", request_name="Test")
READ_T = Action(Operation.READ, ResourceType.TOPIC, "t")
SERVER = ServerInfo(
    cluster_id="c", node_id=1, endpoints={"A": "h:1", "B": "h:2"}, early_start_listeners=frozenset()
)


class Plug(Authorizer):
    """Answers ``answers``, or raises them."""

    def __init__(self, answers: object = (), *, acls: Sequence[Acl] = ()) -> None:
        self.answers = answers
        self.asked: list[tuple[RequestContext, tuple[Action, ...]]] = []
        self._acls = list(acls)

    def _answer(self) -> object:
        if isinstance(self.answers, Exception):
            raise self.answers
        return self.answers

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        self.asked.append((context, tuple(actions)))
        return cast("list[bool]", self._answer())

    def create_acls(
        self, context: RequestContext, acls: Sequence[Acl]
    ) -> Sequence[Completion[None]]:
        return cast("Sequence[Completion[None]]", self._answer())

    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        return cast("Sequence[Completion[Deleted]]", self._answer())

    def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
        yield ()
        self._answer()
        yield self._acls


def plugged(plug: Authorizer) -> tuple[PluggedAuthorizer, list[Exception]]:
    """Return it as the daemon has it, and its faults."""
    faults: list[Exception] = []
    snapshot: Published[AclSnapshot | None] = Published(None)
    authorizer = PluggedAuthorizer(plug, name="Plug", snapshot=snapshot, on_failure=faults.append)
    return authorizer, faults


def test_its_answers_are_given_in_order_and_counted() -> None:
    """It is asked once a request."""
    plug = Plug([True, False])
    authorizer, faults = plugged(plug)
    assert authorizer.authorize(CONTEXT, [READ_T, READ_T]) == [True, False]
    assert plug.asked == [(CONTEXT, (READ_T, READ_T))]
    assert authorizer.counts == {"Kafka": DecisionCounts(allowed=1, denied=1)}
    assert faults == []


@pytest.mark.parametrize(
    "answers", [ValueError("oops"), [True], [True] * 3, None, [1, "yes"], [None, None]]
)
def test_what_is_no_answer_is_a_denial(answers: object) -> None:
    """True alone allows: not 1, nor a text, nor one True for two questions."""
    authorizer, _ = plugged(Plug(answers))
    assert authorizer.authorize(CONTEXT, [READ_T, READ_T]) == [False, False]
    assert authorizer.counts == {"Kafka": DecisionCounts(denied=2)}


@pytest.mark.parametrize("error", [NotReadyError("loading"), InvalidQuestionError("who?")])
def test_errors_of_the_protocol_are_its_right(error: Exception) -> None:
    """They reach the caller, who has an answer for each."""
    authorizer, faults = plugged(Plug(error))
    with pytest.raises(type(error)):
        authorizer.authorize(CONTEXT, [READ_T])
    with pytest.raises(type(error)):
        finish(authorizer.authorize_by_resource_type(CONTEXT, Operation.READ, ResourceType.TOPIC))
    assert faults == []
    counts = authorizer.counts["Kafka"]
    assert counts.not_ready + counts.invalid == 1


def test_a_decision_names_who_took_it() -> None:
    """There is no rule to name, and no offset but that of the log."""
    plug = Plug([True])
    authorizer, _ = plugged(plug)
    authority, counts = authorizer.newest(), DecisionCounts()
    question = Question("User:a", None, Operation.READ, ResourceType.TOPIC, "t")
    assert authority.offset == -1
    decision = authorizer.decide(authority, question, "AuthZEN", counts)
    assert (decision.allowed, str(decision.rule)) == (True, "Plug")
    ((context, actions),) = plug.asked
    assert (context.principal, context.host, context.request_name) == ("User:a", None, "AuthZEN")
    assert actions == (READ_T,)
    plug.answers = KeyError("x")
    assert not authorizer.decide(authority, question, "AuthZEN", counts).allowed
    assert counts == DecisionCounts(allowed=1, denied=1)


def test_items_that_it_cannot_begin_fail_each() -> None:
    """Raised at once, or too few awaitables: every item has one that has failed."""
    acl = Acl(2, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, PermissionType.ALLOW)
    for answers in (RuntimeError("oops"), [Completion.of(None)], None):
        authorizer, faults = plugged(Plug(answers))
        for completions in (
            authorizer.create_acls(CONTEXT, [acl, acl]),
            authorizer.delete_acls(CONTEXT, [AclFilter(), AclFilter()]),
        ):
            assert len(completions) == 2
            for completion in completions:
                with pytest.raises((RuntimeError, AuthorizerFaultError, TypeError)):
                    completion.result()
        assert len(faults) == 2


def test_acls_that_it_cannot_tell_are_an_error() -> None:
    """An empty list would be a lie."""
    authorizer, faults = plugged(Plug(RuntimeError("oops")))
    with pytest.raises(AuthorizerFaultError):
        list(authorizer.acls(AclFilter()))
    assert len(faults) == 1


def test_an_endpoint_that_it_forgets_is_refused() -> None:
    """What nobody answers for must not be opened."""

    class Forgetful(Plug):
        def start(self, server_info: ServerInfo) -> Mapping[str, Completion[None]]:
            return {"A": Completion.of(None)}

    with pytest.raises(EndpointStartError, match=r"endpoint B$"):
        plugged(Forgetful())[0].start(SERVER)
    assert set(plugged(Plug())[0].start(SERVER)) == {"A", "B"}


def test_what_it_fails_at_beside_decisions_does_no_harm() -> None:
    """Nobody is served, nothing is counted, and the daemon ends as it should."""

    class Broken(Plug):
        def serves(self, principal: str) -> bool:
            raise RuntimeError

        def acl_count(self) -> int:
            raise RuntimeError

        def reconfigure(self, configs: Mapping[str, str]) -> None:
            raise RuntimeError

        def close(self) -> None:
            raise RuntimeError

    authorizer, faults = plugged(Broken(RuntimeError("oops")))
    assert authorizer.serves("User:a") is False
    assert authorizer.acl_count() == -1
    authorizer.reconfigure({})
    authorizer.close()
    by_type = authorizer.authorize_by_resource_type(CONTEXT, Operation.READ, ResourceType.TOPIC)
    assert not finish(by_type)
    assert len(faults) == 5


def test_by_resource_type_it_is_asked_about_its_acls() -> None:
    """KIP-679's default: one probe, then what its ACLs say, implications not counted."""
    acl = Acl(2, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, PermissionType.ALLOW)
    plug = Plug([False], acls=[acl])
    authorizer, _ = plugged(plug)

    def by_type(context: RequestContext, operation: int, resource_type: int) -> bool:
        return finish(authorizer.authorize_by_resource_type(context, operation, resource_type))

    assert by_type(CONTEXT, Operation.READ, ResourceType.TOPIC)
    assert not by_type(CONTEXT, Operation.DESCRIBE, ResourceType.TOPIC)
    assert not by_type(CONTEXT, Operation.READ, ResourceType.GROUP)
    probes = [action for _, (action,) in plug.asked]
    assert [probe.resource_name for probe in probes] == ["hardcode"] * 3
    assert {(probe.resource_reference_count, probe.log_if_denied) for probe in probes} == {
        (0, False)
    }
    plug.answers = [True]
    assert by_type(CONTEXT, Operation.WRITE, ResourceType.TOPIC)
    with pytest.raises(InvalidQuestionError):
        by_type(CONTEXT, Operation.ANY, ResourceType.TOPIC)


def test_without_an_authorizer_all_is_allowed_and_no_acl_kept() -> None:
    """Every check passes; who manages ACLs is told that there are none."""
    authorizer, faults = plugged(NoAuthorizer())
    assert authorizer.authorize(CONTEXT, [READ_T] * 3) == [True] * 3
    by_type = authorizer.authorize_by_resource_type(CONTEXT, Operation.READ, ResourceType.TOPIC)
    assert finish(by_type)
    assert authorizer.serves("User:a")
    assert authorizer.acl_count() == -1
    for manage in (
        lambda: authorizer.create_acls(CONTEXT, []),
        lambda: authorizer.delete_acls(CONTEXT, []),
        lambda: list(authorizer.acls(AclFilter())),
    ):
        with pytest.raises(SecurityDisabledError, match=r"^No Authorizer is configured"):
            manage()
    assert faults == []


class PinnedPlug(Plug):
    """Pins, or fails to."""

    def __init__(self, pinned_answers: list[bool] | Exception) -> None:
        super().__init__([False])
        self.pinned_answers = pinned_answers

    def pinned(self) -> Authorize:
        if isinstance(self.pinned_answers, Exception):
            raise self.pinned_answers
        answers = self.pinned_answers
        return lambda context, actions: answers


def test_a_pinned_authorize_is_its_own() -> None:
    """Where it has none, each call is judged by itself; too many answers let nobody in."""
    authorizer, faults = plugged(PinnedPlug([True]))
    assert authorizer.pinned()(CONTEXT, [READ_T]) == [True]
    assert authorizer.pinned()(CONTEXT, [READ_T, READ_T]) == [False, False]
    assert [type(fault) for fault in faults] == [AuthorizerFaultError]
    plug = Plug([True])
    authorizer, faults = plugged(plug)
    assert authorizer.pinned()(CONTEXT, [READ_T]) == [True]
    assert plug.asked == [(CONTEXT, (READ_T,))]
    assert faults == []


def test_where_it_cannot_pin_each_call_is_judged_by_itself() -> None:
    """The fault is told, and what it then answers holds."""
    error = RuntimeError("no")
    authorizer, faults = plugged(PinnedPlug(error))
    assert authorizer.pinned()(CONTEXT, [READ_T]) == [False]
    assert faults == [error]
