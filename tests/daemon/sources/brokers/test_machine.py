"""Which broker the machine asks, how often, and which listings it accepts."""

from random import Random
from typing import Self

import pytest

from authorizerd.daemon.sources.brokers.acknowledged import KEPT_SECONDS
from authorizerd.daemon.sources.brokers.machine import (
    CATCH_UP_POLL_SECONDS,
    CATCH_UP_SECONDS,
    SETTLE_SECONDS,
    TRIES_MAX,
    Machine,
)
from authorizerd.daemon.sources.brokers.messages import (
    Accept,
    Action,
    AskListing,
    AskQuorum,
    Broken,
    Done,
    Event,
    Listed,
    Open,
    Opened,
    Quorum,
    Refused,
    Stop,
    Target,
    Unserved,
    Wait,
    Woken,
)
from authorizerd.daemon.sources.brokers.pauses import JITTER
from tests.daemon.sources.brokers.cluster_model import CLUSTER_ID, PAUSE_MAX, POLL

ONE, TWO = Target("one", 9092, 1), Target("two", 9092, 2)
BROKERS = (ONE, TWO)
OPENED = Opened(CLUSTER_ID, BROKERS)


class Conversation:
    """Answers a machine, and checks what it asks for."""

    def __init__(self, *, cluster_id: str | None = None, high_watermark: int | None = 10) -> None:
        self.now = 100.0
        self.machine = Machine(
            [Target("bootstrap", 1)],
            poll_seconds=POLL,
            pause_seconds_max=PAUSE_MAX,
            cluster_id=cluster_id,
            high_watermark=high_watermark,
            random=Random(1),
        )
        self.action = self.machine.advance(None, self.now)

    def answer(self, event: Event, seconds: float = 0.01) -> Action:
        self.now += seconds
        self.action = self.machine.advance(event, self.now)
        return self.action

    def wait(self) -> Action:
        """Let the time of a Wait pass."""
        assert isinstance(self.action, Wait)
        return self.answer(Done(), self.action.seconds)

    def connect(self) -> int:
        """Connect to a broker by the bootstrap server; return its id."""
        assert self.action == Open(Target("bootstrap", 1))
        action = self.answer(OPENED)
        assert isinstance(action, Open)
        assert self.answer(OPENED) == AskQuorum()
        assert action.target.broker_id is not None
        return action.target.broker_id

    def await_listing(self, quorum: Quorum) -> None:
        """Answer the first question about the quorum, so that the broker is listed."""
        assert self.answer(quorum) == Wait(SETTLE_SECONDS)
        assert self.wait() == AskListing()

    def begin(self, *, has_quorum: bool = True) -> Self:
        """Accept a first listing, with the quorum's high watermark 12; return this."""
        self.first = self.connect()
        if has_quorum:
            self.await_listing(Quorum(11, {1: 11, 2: 11}))
            assert self.answer(Listed(is_equal=False)) == AskQuorum()
            assert self.answer(Quorum(12, {1: 12, 2: 12})) == Accept(frozenset(), 12)
        else:
            assert self.answer(Unserved("no such API")) == AskListing()
            assert self.answer(Listed(is_equal=True)) == Accept(frozenset())
            self.answer(Done())
            assert self.wait() == AskListing()
            assert self.answer(Listed(is_equal=False)) == Accept(frozenset())
        self.answer(Done())
        assert isinstance(self.action, Wait)
        return self

    def lose(self) -> None:
        """Break the connection; the machine turns to the other broker."""
        self.answer(Broken("cut"))
        assert isinstance(self.wait(), Open)
        assert self.answer(OPENED) == AskQuorum()


@pytest.mark.parametrize("cluster_id", ["another", "x"])
def test_another_cluster_stops_decisions(cluster_id: str) -> None:
    """The text names both clusters and the remedy. It also stops if a later broker differs."""
    at_start = Conversation(cluster_id=CLUSTER_ID)
    later = Conversation(cluster_id=None)
    later.answer(OPENED)
    for each in (at_start, later):
        action = each.answer(Opened(cluster_id, BROKERS))
        assert isinstance(action, Stop)
        assert f"expected cluster {CLUSTER_ID}, found {cluster_id}" in action.reason
        assert "reset-copy" in action.reason
        assert each.answer(Done()) == action


def test_server_without_a_cluster_id_is_left() -> None:
    talk = Conversation()
    action = talk.answer(Opened(None, BROKERS))
    assert isinstance(action, Wait)
    assert "expected the cluster's id" in action.problem


def test_failover_waits_for_what_was_committed_at_the_connection() -> None:
    """A broker is listed only once its log has what the first answer names, and has settled."""
    talk = Conversation().begin()
    talk.wait()
    talk.lose()
    first, other = talk.first, 3 - talk.first
    for _ in range(3):
        assert talk.answer(Quorum(20, {first: 20, other: 12})) == Wait(CATCH_UP_POLL_SECONDS)
        assert talk.wait() == AskQuorum()
    assert talk.answer(Quorum(30, {first: 30, other: 19})) == Wait(CATCH_UP_POLL_SECONDS)
    talk.wait()
    talk.await_listing(Quorum(30, {first: 30, other: 20}))
    talk.answer(Listed(is_equal=False))
    assert talk.answer(Quorum(30, {other: 30})) == Accept(frozenset(), 30)


def test_lagging_broker_is_left_after_a_while() -> None:
    talk = Conversation().begin()
    talk.wait()
    talk.lose()
    first, other = talk.first, 3 - talk.first
    started = talk.now
    while talk.answer(Quorum(20, {first: 20, other: 11})) == Wait(CATCH_UP_POLL_SECONDS):
        assert talk.wait() == AskQuorum()
    assert talk.now - started >= CATCH_UP_SECONDS
    assert isinstance(talk.action, Wait)
    assert "up to offset 11, not 20" in talk.action.problem


@pytest.mark.parametrize("high_watermark", [None, 10, -1])
def test_start_waits_for_what_is_committed_then(high_watermark: int | None) -> None:
    """Loaded means the high watermark that the quorum reported after the connection.

    A copy may be as old as a broker that lags.
    """
    talk = Conversation(high_watermark=high_watermark)
    broker_id = talk.connect()
    assert talk.answer(Quorum(50, {1: 49, 2: 49})) == Wait(CATCH_UP_POLL_SECONDS)
    talk.wait()
    talk.await_listing(Quorum(51, {broker_id: 50}))


@pytest.mark.parametrize("high_watermark", [9, -1])
def test_quorum_below_what_was_published_is_not_believed(high_watermark: int) -> None:
    """A deposed leader or a restored cluster may have less. Without a leader, nothing is known."""
    talk = Conversation(high_watermark=10)
    talk.connect()
    while talk.answer(Quorum(high_watermark, {1: 50, 2: 50})) == Wait(CATCH_UP_POLL_SECONDS):
        assert talk.wait() == AskQuorum()
    assert isinstance(talk.action, Wait)
    expected = "no leader" if high_watermark < 0 else "authorizerd reset-copy"
    assert expected in talk.action.problem


def test_brokers_with_hidden_ids_are_judged_by_their_listings() -> None:
    """If the quorum names none of the brokers, it cannot be used."""
    talk = Conversation()
    talk.connect()
    for _ in range(30):
        if talk.answer(Quorum(50, {7: 50})) == AskListing():
            break
        assert talk.action == Wait(CATCH_UP_POLL_SECONDS)
        talk.wait()
    action = talk.answer(Listed(is_equal=False))
    assert isinstance(action, Wait)
    assert "differs" in action.problem


def test_without_the_quorum_a_first_difference_is_listed_twice() -> None:
    """The second time is a poll later, however often a barrier asks."""
    talk = Conversation().begin(has_quorum=False)
    talk.wait()
    talk.lose()
    assert talk.answer(Unserved("no such API")) == AskListing()
    started = talk.now
    action = talk.answer(Listed(is_equal=False))
    while isinstance(action, Wait):
        assert "differs" in action.problem
        asked = talk.answer(Woken())
        assert (talk.wait() if isinstance(asked, Wait) else asked) == AskListing()
        action = talk.answer(Listed(is_equal=False))
    assert action == Accept(frozenset())
    assert talk.now - started >= (1 - JITTER) * POLL


@pytest.mark.parametrize("has_quorum", [True, False])
def test_failover_waits_for_acknowledged_changes(has_quorum: bool) -> None:
    """A listing that lacks one is not accepted, even if it equals what is in force."""
    talk = Conversation().begin(has_quorum=has_quorum)
    talk.machine.acknowledge(7, talk.now)
    talk.answer(Woken())
    talk.wait()
    talk.lose()
    if has_quorum:
        # The change is below 21; this broker does not have it yet.
        assert talk.answer(Quorum(21, {1: 20, 2: 20})) == Wait(CATCH_UP_POLL_SECONDS)
        talk.wait()
        talk.await_listing(Quorum(22, {1: 21, 2: 21}))
        return
    assert talk.answer(Unserved("no such API")) == AskListing()
    for _ in range(9):
        action = talk.answer(Listed(is_equal=True))
        assert isinstance(action, Wait)
        assert "lacks 1 acknowledged" in action.problem
        talk.wait()
    assert talk.answer(Listed(is_equal=True, shown=frozenset([7]))) == Accept(frozenset([7]))


def test_change_undone_by_another_client_holds_nothing_up() -> None:
    """Without the quorum for a minute; with it, until the broker has what was committed."""
    talk = Conversation().begin(has_quorum=False)
    talk.wait()
    talk.machine.acknowledge(7, talk.now)
    made_at = talk.now
    talk.lose()
    talk.answer(Unserved("no such API"))
    while talk.answer(Listed(is_equal=False)) != Accept(frozenset()):
        talk.wait()
    assert KEPT_SECONDS <= talk.now - made_at <= KEPT_SECONDS + 2 * POLL
    talk = Conversation().begin()
    talk.machine.acknowledge(7, talk.now)
    answered = False
    for number in range(20, 60):
        talk.wait()
        talk.answer(Listed(is_equal=True))
        action = talk.answer(Quorum(number, {1: number, 2: number}))
        assert isinstance(action, Accept)
        answered = answered or 7 in action.shown
        talk.answer(Done())
    assert answered


def test_barrier_is_answered_only_by_a_listing_with_its_change() -> None:
    talk = Conversation().begin()
    talk.machine.acknowledge(7, talk.now)
    talk.answer(Woken())
    talk.wait()
    talk.answer(Listed(is_equal=True))
    assert talk.answer(Quorum(20, {1: 20, 2: 20})) == Accept(frozenset(), 20)
    talk.answer(Done())
    talk.wait()
    talk.answer(Listed(is_equal=False, shown=frozenset([7])))
    assert talk.answer(Quorum(20, {1: 20, 2: 20})) == Accept(frozenset([7]), 20)


def test_barrier_polls_at_once_and_then_less_often() -> None:
    """Pauses double from 50 ms. Half the time stays free, however long a listing takes."""
    talk = Conversation().begin()
    talk.machine.acknowledge(7, talk.now)
    talk.answer(Woken(), 0.0)
    pauses = []
    for seconds in (0.0, 0.0, 0.0, 0.0, 3.0):
        assert isinstance(talk.action, Wait)
        pauses.append(round(talk.action.seconds, 6))
        talk.wait()
        talk.answer(Listed(is_equal=True, seconds=seconds))
        talk.answer(Quorum(20, {1: 5, 2: 5}))
        talk.answer(Done())
    assert pauses == [0.05, 0.05, 0.1, 0.2, 0.4]
    assert isinstance(talk.action, Wait)
    assert talk.action.seconds == 3.0


@pytest.mark.parametrize(
    ("listed", "least", "most"),
    [
        (Listed(is_equal=True), 0.9 * POLL, 1.1 * POLL),
        (Listed(is_equal=True, seconds=2.0), 18.0, 22.0),
        (Listed(is_equal=True, seconds=20.0), 0.9 * PAUSE_MAX, 1.1 * PAUSE_MAX),
        (Listed(is_equal=True, throttle_seconds=1.0), 1.8 * POLL, 2.2 * POLL),
        (Listed(is_equal=True, throttle_seconds=100.0), 180.0, 220.0),
    ],
)
def test_pause_grows_with_answer_and_throttling(listed: Listed, least: float, most: float) -> None:
    talk = Conversation().begin()
    talk.wait()
    talk.answer(listed)
    talk.answer(Quorum(20, {1: 20, 2: 20}))
    action = talk.answer(Done())
    assert isinstance(action, Wait)
    assert least <= action.seconds <= most


def test_barrier_respects_throttling() -> None:
    talk = Conversation().begin()
    talk.wait()
    talk.answer(Listed(is_equal=True, throttle_seconds=3.0))
    talk.answer(Quorum(20, {1: 20, 2: 20}))
    talk.answer(Done())
    talk.machine.acknowledge(7, talk.now)
    action = talk.answer(Woken(), 1.0)
    assert isinstance(action, Wait)
    assert 1.9 < action.seconds < 2.1


@pytest.mark.parametrize("what", ["listing", "quorum", "lag"])
def test_failing_broker_is_left(what: str) -> None:
    """It is left after three refusals, or while it does not follow the quorum."""
    talk = Conversation().begin()
    asked = 0
    while not isinstance(talk.action, Open):
        talk.wait()
        if not isinstance(talk.action, AskListing):
            continue
        asked += 1
        if what == "listing":
            talk.answer(Refused("SECURITY_DISABLED: no authorizer"))
            continue
        talk.answer(Listed(is_equal=False))
        if what == "quorum":
            talk.answer(Refused("REQUEST_TIMED_OUT"))
            continue
        action = talk.answer(Quorum(100 * asked, {talk.first: 12}))
        assert isinstance(action, Accept)
        assert action.is_current == (asked < 2)
        talk.answer(Done())
    assert talk.action.target.broker_id == 3 - talk.first
    assert asked <= 2 * TRIES_MAX


def test_failures_are_retried_with_growing_pauses() -> None:
    talk = Conversation()
    pauses = []
    for _ in range(12):
        assert isinstance(talk.action, Open)
        action = talk.answer(Broken("refused"))
        assert isinstance(action, Wait)
        assert "refused" in action.problem
        pauses.append(action.seconds)
        talk.wait()
    assert pauses[0] < 0.2
    assert 9 <= pauses[-1] <= 11
