"""The wrapper of third-party authorizers: no fault allows anything or ends the daemon."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import repeat
from typing import cast

import pytest

from authorizerd.acl.errors import AclError, InvalidQuestionError, NotReadyError
from authorizerd.acl.model import Acl, AclFilter, Operation, PatternType, ResourceType
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot
from authorizerd.acl.steps import finish
from authorizerd.acl.updates import Deleted
from authorizerd.actors.authorizer import Action, Authorize, Authorizer, RequestContext, ServerInfo
from authorizerd.actors.completion import Completion
from authorizerd.actors.daemon_authorizer import DecisionContext, DecisionCounts
from authorizerd.actors.errors import (
    AuthorizerFaultError,
    EndpointStartError,
    SecurityDisabledError,
)
from authorizerd.actors.no_authorizer import NoAuthorizer
from authorizerd.actors.plugged_authorizer import PluggedAuthorizer
from authorizerd.actors.published import Expiring, Published
from tests.support.acls import acl, question
from tests.support.authorizers import Plug, server_endpoint

CONTEXT = RequestContext(principal="User:a", host="10.0.0.1", request_name="Test")
READ_T_FIELDS = (Operation.READ, ResourceType.TOPIC, "t")
READ_T = Action(*READ_T_FIELDS)
SERVER = ServerInfo(
    cluster_id="c",
    node_id=1,
    endpoints={name: server_endpoint(name) for name in ("A", "B")},
    early_start_listeners=frozenset(),
)


ACL = acl("User:a", "READ", topic="t")
RAISED = [
    ValueError("oops"),
    SystemExit(0),
    KeyboardInterrupt(),
    GeneratorExit(),
    RecursionError(),
    BaseExceptionGroup("several", [SystemExit(0)]),
]
"""Errors of an authorizer, none of which may end the daemon."""


def plugged(plug: Authorizer) -> tuple[PluggedAuthorizer, list[BaseException]]:
    """Return the wrapped authorizer, and the list of its faults."""
    faults: list[BaseException] = []
    snapshot: Published[AclSnapshot | None] = Published(None)
    authorizer = PluggedAuthorizer(plug, name="Plug", snapshot=snapshot, on_failure=faults.append)
    return authorizer, faults


def test_request_that_outlives_the_acls_gets_no_answer() -> None:
    """The authorizer may have decided by them before the process was paused."""
    now = 0.0
    published: Expiring[AclSnapshot] = Expiring(clock=lambda: now)
    authorizer = PluggedAuthorizer(
        Plug([True]), name="Plug", snapshot=published, on_failure=lambda _: None
    )
    before = authorizer.current_state()
    published.publish_until(EMPTY_SNAPSHOT, 10.0)
    state = authorizer.current_state()
    now = 10.0
    assert authorizer.has_expired(state)
    for without_acls in (before, authorizer.current_state()):
        assert not authorizer.has_expired(without_acls), "the authorizer decides without them"


def test_answers_are_returned_in_order_and_counted() -> None:
    """The plug-in is asked once per request."""
    plug = Plug([True, False])
    authorizer, faults = plugged(plug)
    assert authorizer.authorize(CONTEXT, [READ_T, READ_T]) == [True, False]
    assert plug.asked == [(CONTEXT, (READ_T, READ_T))]
    assert authorizer.counts == {"Kafka": DecisionCounts(allowed=1, denied=1)}
    assert faults == []


@pytest.mark.parametrize(
    "answers", [*RAISED, [True], [True] * 3, None, [1, "yes"], [None, None], 1, object()]
)
def test_invalid_answers_are_denials(answers: object) -> None:
    """Only True allows: not 1, not a text, and not one True for two questions."""
    authorizer, faults = plugged(Plug(answers))
    assert authorizer.authorize(CONTEXT, [READ_T, READ_T]) == [False, False]
    assert authorizer.counts == {"Kafka": DecisionCounts(denied=2)}
    # Two answers that are not True deny, but only a wrong shape or an error is a fault.
    assert len(faults) == (answers not in ([1, "yes"], [None, None]))


class _Truthy:
    """Like the booleans of some libraries: truthy, and equal to True."""

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "answers",
    [{True: False}, {True}, frozenset((True,)), (each for each in [True]), repeat(True),
     {True: 1}.keys(), [_Truthy()], _Truthy(), range(1, 2), b"\1"],
    ids=lambda answers: type(answers).__name__,
)  # fmt: skip
def test_only_a_list_of_bools_allows(answers: object) -> None:
    """A dict's key is not an answer, and some iterators never end."""
    authorizer, _ = plugged(Plug(answers))
    assert authorizer.authorize(CONTEXT, [READ_T]) == [False]


@pytest.mark.parametrize("error", [NotReadyError("loading"), InvalidQuestionError("who?")])
def test_errors_of_the_interface_are_passed_on(error: Exception) -> None:
    """They reach the caller, and are not faults."""
    authorizer, faults = plugged(Plug(error))
    with pytest.raises(type(error)):
        authorizer.authorize(CONTEXT, [READ_T])
    with pytest.raises(type(error)):
        finish(authorizer.authorize_by_resource_type(CONTEXT, Operation.READ, ResourceType.TOPIC))
    assert faults == []
    counts = authorizer.counts["Kafka"]
    assert counts.not_ready + counts.invalid == 1


def test_a_decision_names_the_plug_in_as_its_rule() -> None:
    """The plug-in is asked again for a repeated decision, and by a judge."""
    plug = Plug([True])
    authorizer, _ = plugged(plug)
    state, context = authorizer.current_state(), DecisionContext("AuthZEN", DecisionCounts())
    asked = question("User:a", host=None)
    assert state.offset == -1
    decision = authorizer.decide(state, asked, context)
    assert (decision.allowed, str(decision.rule)) == (True, "Plug")
    ((request, actions),) = plug.asked
    assert (request.principal, request.host, request.request_name) == ("User:a", None, "AuthZEN")
    assert actions == (READ_T,)
    plug.answers = KeyError("x")
    assert not authorizer.decide(state, asked, context).allowed
    authorize = authorizer.authorize_by(state, "Test")
    assert not authorize(state.snapshot, state.settings, "User:a", None, *READ_T_FIELDS)
    assert context.counts == DecisionCounts(allowed=1, denied=1)
    assert authorizer.counts == {}


def test_an_actions_details_reach_the_plug_in() -> None:
    """A plug-in writes its own audit log."""
    plug = Plug([True])
    authorizer, _ = plugged(plug)
    context = DecisionContext("OPA", DecisionCounts(), 3, log_if_allowed=False, log_if_denied=False)
    authorizer.decide(authorizer.current_state(), question("User:a"), context)
    ((_, actions),) = plug.asked
    assert actions == (Action(*READ_T_FIELDS, PatternType.LITERAL, 3, False, False),)


@pytest.mark.parametrize(
    "answers", [*RAISED, [Completion.of(None)], None, [None, None], {1: 1, 2: 2}, "ab"]
)
def test_every_item_fails_if_the_plug_in_fails(answers: object) -> None:
    """It raises an error, or returns too few completions or other values."""
    authorizer, faults = plugged(Plug(answers))
    for completions in (
        authorizer.create_acls(CONTEXT, [ACL, ACL]),
        authorizer.delete_acls(CONTEXT, [AclFilter(), AclFilter()]),
    ):
        assert len(completions) == 2
        for completion in completions:
            assert completion.is_done
            with pytest.raises((ValueError, TypeError, RuntimeError, AuthorizerFaultError)):
                completion.result()
    assert len(faults) == 2


@pytest.mark.parametrize(
    "value",
    [
        "nonsense",
        None,
        Deleted(cast("tuple[Acl, ...]", None)),
        Deleted(cast("tuple[Acl, ...]", (ACL, 1))),
        Deleted(error=cast("AclError", "nonsense")),
        Deleted(failures=cast("dict[Acl, Exception]", 1)),
        Deleted((ACL,), failures=cast("dict[Acl, Exception]", {ACL: "nonsense"})),
    ],
)
async def test_an_invalid_result_of_a_deletion_fails_its_item(value: object) -> None:
    """The other items keep their results."""
    good = Completion.of(Deleted((ACL,)))
    bad = Completion[object]()
    authorizer, faults = plugged(Plug([bad, good]))
    checked, other = authorizer.delete_acls(CONTEXT, [AclFilter(), AclFilter()])
    assert not checked.is_done
    bad.succeed(value)
    await checked.wait_until_done()
    with pytest.raises(AuthorizerFaultError):
        checked.result()
    assert len(faults) == 1
    assert await other == Deleted((ACL,))


async def test_an_item_that_fails_with_system_exit_fails_alone() -> None:
    """Any Exception is a valid result of an item."""
    exits, fails = Completion[None](), Completion[None]()
    exits.fail(cast("Exception", SystemExit(0)))
    fails.fail(PermissionError("no"))
    authorizer, faults = plugged(Plug([exits, fails]))
    first, second = authorizer.create_acls(CONTEXT, [ACL, ACL])
    with pytest.raises(AuthorizerFaultError, match="SystemExit"):
        await first
    with pytest.raises(PermissionError):
        await second
    assert len(faults) == 1


@pytest.mark.parametrize("error", RAISED)
def test_a_failed_listing_is_an_error(error: BaseException) -> None:
    """An empty list would be wrong."""
    authorizer, faults = plugged(Plug(error))
    with pytest.raises(AuthorizerFaultError):
        list(authorizer.acls(AclFilter()))
    assert [fault.__cause__ for fault in faults] == [error]


def test_listing_that_is_not_ready_is_no_fault() -> None:
    authorizer, faults = plugged(Plug(NotReadyError("later")))
    with pytest.raises(NotReadyError):
        list(authorizer.acls(AclFilter()))
    assert faults == []


@pytest.mark.parametrize("acls", [None, "ab", [ACL, 1], {ACL: 1}])
def test_an_invalid_list_of_acls_is_an_error(acls: object) -> None:
    """The error is raised before anything is sent to the client."""
    plug = Plug()
    plug.listed = acls
    authorizer, faults = plugged(plug)
    with pytest.raises(AuthorizerFaultError):
        list(authorizer.acls(AclFilter()))
    assert len(faults) == 1


def test_a_listing_without_slices_is_an_error() -> None:
    """Single ACLs are not slices."""

    class Plain(Plug):
        def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
            return cast("Iterator[Sequence[Acl]]", [ACL])

    authorizer, faults = plugged(Plain())
    with pytest.raises(AuthorizerFaultError):
        list(authorizer.acls(AclFilter()))
    assert len(faults) == 1


def test_closing_a_listing_is_not_a_fault() -> None:
    """A client may disconnect at any time."""
    authorizer, faults = plugged(Plug(acls=[ACL]))
    listing = authorizer.acls(AclFilter())
    next(listing)
    assert isinstance(listing, Generator)
    listing.close()
    assert faults == []


def test_a_missing_endpoint_is_an_error() -> None:
    """An endpoint without a completion must not open."""

    class Forgetful(Plug):
        def start(self, server_info: ServerInfo) -> Mapping[str, Completion[None]]:
            return {"A": Completion.of(None)}

    class Broken(Plug):
        def start(self, server_info: ServerInfo) -> Mapping[str, Completion[None]]:
            if isinstance(self.answers, BaseException):
                raise self.answers
            return cast("Mapping[str, Completion[None]]", self.answers)

    with pytest.raises(EndpointStartError, match=r"endpoint B$"):
        plugged(Forgetful())[0].start(SERVER)
    for answers in (*RAISED, None, 1, {"A": None, "B": None}):
        with pytest.raises(EndpointStartError):
            plugged(Broken(answers))[0].start(SERVER)
    assert set(plugged(Plug())[0].start(SERVER)) == {"A", "B"}


@pytest.mark.parametrize("error", RAISED)
def test_an_authorizer_that_rejects_the_cluster_id_is_an_error(error: BaseException) -> None:
    """It would go on with another cluster's id. By default, nothing happens."""

    class Broken(Plug):
        def learn_cluster_id(self, cluster_id: str) -> None:
            raise error

    with pytest.raises(EndpointStartError, match="rejects the cluster id"):
        plugged(Broken())[0].learn_cluster_id("cluster")
    plugged(Plug())[0].learn_cluster_id("cluster")


@pytest.mark.parametrize("error", RAISED)
def test_faults_of_other_methods_do_no_harm(error: BaseException) -> None:
    """Nobody is served, nothing is counted, and the daemon can end."""

    def fail(*_: object) -> None:
        raise error

    names = "serves", "acl_count", "validate_reconfiguration", "reconfigure", "pinned", "close"
    attributes = "not_ready_reason", "reconfigurable_configs"
    broken = type(
        "Broken",
        (Plug,),
        {**dict.fromkeys(names, fail), **dict.fromkeys(attributes, property(fail))},
    )
    authorizer, faults = plugged(broken(error))
    assert authorizer.serves("User:a") is False
    assert authorizer.not_ready_reason == "the ACLs are not loaded yet"
    assert authorizer.acl_count() == -1
    assert authorizer.reconfigurable_configs == frozenset()
    authorizer.reconfigure({})
    authorizer.pinned()
    authorizer.close()
    by_type = authorizer.authorize_by_resource_type(CONTEXT, Operation.READ, ResourceType.TOPIC)
    assert not finish(by_type)
    assert len(faults) == 8
    with pytest.raises(type(error) if isinstance(error, Exception) else AuthorizerFaultError):
        authorizer.validate_reconfiguration({})


@pytest.mark.parametrize("count", ["many", None, 1.5, [1], -2, 2**64])
def test_an_invalid_acl_count_is_minus_one(count: object) -> None:
    """A metric must be a number."""

    class Counting(Plug):
        def acl_count(self) -> int:
            return cast("int", count)

    authorizer, faults = plugged(Counting())
    assert authorizer.acl_count() == -1
    assert len(faults) == 1


def test_a_question_by_resource_type_reads_the_plug_ins_acls() -> None:
    """KIP-679's default: one probe, then its ACLs, without implications."""
    plug = Plug([False], acls=[ACL])
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


def test_no_authorizer_allows_everything_and_has_no_acls() -> None:
    """Every check passes, and requests about ACLs fail."""
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
    """A plug-in that pins, or fails to."""

    def __init__(self, pinned_answers: list[bool] | Exception) -> None:
        super().__init__([False])
        self.pinned_answers = pinned_answers

    def pinned(self) -> Authorize:
        if isinstance(self.pinned_answers, Exception):
            raise self.pinned_answers
        answers = self.pinned_answers
        return lambda context, actions: answers


def test_the_plug_ins_own_pinned_authorize_is_used() -> None:
    """Without one, ``authorize`` is used. A wrong number of answers denies."""
    authorizer, faults = plugged(PinnedPlug([True]))
    assert authorizer.pinned()(CONTEXT, [READ_T]) == [True]
    assert authorizer.pinned()(CONTEXT, [READ_T, READ_T]) == [False, False]
    assert [type(fault) for fault in faults] == [AuthorizerFaultError]
    plug = Plug([True])
    authorizer, faults = plugged(plug)
    assert authorizer.pinned()(CONTEXT, [READ_T]) == [True]
    assert plug.asked == [(CONTEXT, (READ_T,))]
    assert faults == []


def test_calls_use_the_newest_state_if_the_plug_in_cannot_pin() -> None:
    """The fault is reported, and the answers count."""
    error = RuntimeError("no")
    authorizer, faults = plugged(PinnedPlug(error))
    assert authorizer.pinned()(CONTEXT, [READ_T]) == [False]
    assert faults == [error]


class _Unreadable(NotReadyError):
    """An authorizer's own class, whose text cannot be read."""

    def __str__(self) -> str:
        raise SystemExit


def test_authorizer_without_a_reason_still_refuses() -> None:
    """An empty text would mean that decisions are made."""

    class Mute(Plug):
        def serves(self, principal: str) -> bool:
            return False

        @property
        def not_ready_reason(self) -> str:
            return ""

    snapshot = Published[AclSnapshot | None](EMPTY_SNAPSHOT)
    authorizer = PluggedAuthorizer(Mute(), name="Plug", snapshot=snapshot, on_failure=print)
    assert authorizer.refusal == authorizer.not_ready_reason == "the ACLs are not loaded yet"


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (NotReadyError("a \udc80\r\nb"), NotReadyError, r"a \udc80\r\nb"),
        (NotReadyError(), NotReadyError, "the ACLs are not loaded yet"),
        (_Unreadable(), NotReadyError, "the ACLs are not loaded yet"),
        (NotReadyError("x" * 10_000), NotReadyError, "x" * 500),
        (InvalidQuestionError("\ud800"), InvalidQuestionError, r"\ud800"),
    ],
    ids=repr,
)
def test_authorizers_texts_fit_answers(error: Exception, kind: type[Exception], text: str) -> None:
    """An answer cannot contain a lone surrogate: the request would fail instead."""

    class Saying(Plug):
        @property
        def not_ready_reason(self) -> str:
            return cast(str, error)

        def authorize_by_resource_type(
            self, context: RequestContext, operation: int, resource_type: int
        ) -> Generator[None, None, bool]:
            raise error
            yield

    authorizer, faults = plugged(Saying(error))
    with pytest.raises(kind) as caught:
        authorizer.authorize(CONTEXT, [READ_T])
    assert (type(caught.value), str(caught.value)) == (kind, text)
    with pytest.raises(kind) as caught:
        finish(authorizer.authorize_by_resource_type(CONTEXT, *READ_T_FIELDS[:2]))
    assert (type(caught.value), str(caught.value)) == (kind, text)
    assert authorizer.not_ready_reason == text
    assert faults == []
