"""Decide, without I/O, which broker to ask, how often, and which listings to put in force.

A broker answers from its own copy of the metadata, which only moves forward while it runs, so
listings of one connection never go back. Another broker, or the same one after a restart, may be
older than what was published.

**Invariant:** a connection's first listing is accepted only if the broker surely has everything
published or acknowledged before:

- A broker's log must have reached the quorum's high watermark that is first reported to the
  connection, plus ``SETTLE_SECONDS``, since it applies records after it has fetched them. So its
  first listing is also current. A watermark below that of the last accepted listing is not trusted.
- If the quorum's state is unavailable, the listing must show all acknowledged changes, and a
  listing that differs from the state in force must still differ one poll later.

Source: KIP-595, KIP-836; Kafka 4.3 KafkaRaftClient, BrokerMetadataPublisher.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeAlias, TypeVar

from authorizerd.daemon.sources.brokers.acknowledged import LAG_SECONDS, Acknowledged, Lag
from authorizerd.daemon.sources.brokers.messages import (
    Accept,
    Action,
    AskListing,
    AskQuorum,
    Broken,
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
from authorizerd.daemon.sources.brokers.pauses import JITTER, Pauses

SETTLE_SECONDS: Final = 1.0
"""How long a broker may take to apply its log: more than two of its fetches."""
CATCH_UP_SECONDS: Final = 10.0
"""How long a new broker may lag before another is tried."""
CATCH_UP_POLL_SECONDS: Final = 0.5
TRIES_MAX: Final = 3
"""After this many consecutive failures or late answers, another broker is tried."""

T = TypeVar("T")

_Script: TypeAlias = Generator[Action, Event, T]


class _LostError(Exception):
    """The machine must switch to another server; the text says why."""


class _FailedError(Exception):
    """A poll failed, or showed that the broker is not current; the text says why."""


@dataclass(slots=True)
class _Pin:
    """The broker in use, and what is known about its connection.

    Attributes:
        has_quorum: True if the quorum's state is checked.
        is_trusted: True once the broker is known to be as new as what is in force.
        first_asked: when its first listing was requested.
    """

    broker_id: int
    has_quorum: bool
    is_trusted: bool = False
    first_asked: float | None = None
    lag: Lag = field(default_factory=Lag)


class Machine:
    """Call ``advance`` with the answer to each action, first with None.

    Args:
        servers: the bootstrap servers.
        poll_seconds: the usual time between two listings.
        pause_seconds_max: the longest time between two listings, unless the broker throttles.
        cluster_id: the cluster to follow, None if it is not known yet.
        high_watermark: the quorum's high watermark when a listing was last accepted, -1 if it was
            unknown, None if no listing was ever accepted.
        random: spreads daemons over brokers and over time.
    """

    def __init__(
        self,
        servers: Sequence[Target],
        *,
        poll_seconds: float,
        pause_seconds_max: float,
        cluster_id: str | None,
        high_watermark: int | None,
        random: Random,
    ) -> None:
        self._servers = tuple(servers)
        self._poll_seconds = poll_seconds
        self._cluster_id = cluster_id
        self._has_state = high_watermark is not None
        self._high_watermark = -1 if high_watermark is None else high_watermark
        self._random = random
        self._pauses = Pauses(poll_seconds, pause_seconds_max, random)
        self._acknowledged = Acknowledged()
        self._untried: list[Target] = []
        self._server = -1
        self._now = 0.0
        self._script = self._run()

    def advance(self, event: Event | None, now: float) -> Action:
        """Return the next action.

        Args:
            event: the answer to the last action, None at the start.
            now: the time in seconds, which never goes back.
        """
        self._now = now
        return next(self._script) if event is None else self._script.send(event)

    def acknowledge(self, key: int, now: float) -> None:
        """Note changes that the cluster has acknowledged: from now on, listings must show them."""
        self._acknowledged.add(key, now)
        self._pauses.become_eager()

    def forget_old_changes(self, now: float) -> None:
        """Forget acknowledged changes that listings requested from now on need not show."""
        self._acknowledged.forget_old(now)

    def _run(self) -> _Script[None]:
        while True:
            target = self._choose()
            try:
                yield from self._visit(target)
            except _LostError as error:
                text = str(error)
                problem = text if text.startswith(f"{target}: ") else f"{target}: {text}"
                yield Wait(self._pauses.after_failure(), problem=problem)

    def _choose(self) -> Target:
        """Return a broker that has not been tried yet, or else the next bootstrap server."""
        if self._untried:
            return self._untried.pop()
        self._server = (self._server + 1) % len(self._servers)
        return self._servers[self._server]

    def _visit(self, target: Target) -> _Script[None]:
        """Learn the brokers from a bootstrap server, or read from a broker until that fails."""
        opened = yield from _ask(Open(target))
        if not isinstance(opened, Opened):
            raise _LostError(_describe(opened))
        yield from self._check_cluster(target, opened)
        if target.broker_id is None:
            if not opened.brokers:
                raise _LostError("expected the addresses of brokers, found none")
            self._untried = self._random.sample(opened.brokers, len(opened.brokers))
            return
        if not self._untried:
            others = [broker for broker in opened.brokers if broker.broker_id != target.broker_id]
            self._untried = self._random.sample(others, len(others))
        self._acknowledged.restart()
        pin = yield from self._await_broker(target.broker_id, opened.brokers)
        yield from self._follow(pin)

    def _check_cluster(self, target: Target, opened: Opened) -> _Script[None]:
        """Stop for good if the server belongs to another cluster."""
        if opened.cluster_id is None:
            raise _LostError("expected the cluster's id in the answer, found none")
        if self._cluster_id is None:
            self._cluster_id = opened.cluster_id
        while opened.cluster_id != self._cluster_id:
            yield Stop(
                f"{target}: expected cluster {self._cluster_id}, found {opened.cluster_id}: correct"
                " authorizerd.source.bootstrap.servers or authorizerd.source.cluster.id. To follow"
                " the other cluster, stop the daemon and run `authorizerd reset-copy`"
            )

    def _await_broker(self, broker_id: int, brokers: Sequence[Target]) -> _Script[_Pin]:
        """Wait until a broker has everything that was published or acknowledged."""
        give_up = self._now + CATCH_UP_SECONDS
        committed = -1
        while True:
            asked = self._now
            quorum = yield from _ask(AskQuorum())
            if isinstance(quorum, Unserved):
                return _Pin(broker_id, has_quorum=False)
            if not isinstance(quorum, Quorum):
                problem = _describe(quorum)
            else:
                problem = self._note_commit(quorum, asked)
                if not problem:
                    committed = quorum.high_watermark if committed < 0 else committed
                    problem = self._find_lack(broker_id, quorum, committed)
                if not problem:
                    self._note_applied(broker_id, quorum)
                    yield Wait(SETTLE_SECONDS)
                    return _Pin(broker_id, has_quorum=True)
                if self._now >= give_up and _hides_brokers(quorum, brokers):
                    return _Pin(broker_id, has_quorum=False)
            if self._now >= give_up:
                raise _LostError(problem)
            yield Wait(CATCH_UP_POLL_SECONDS)

    def _find_lack(self, broker_id: int, quorum: Quorum, committed: int) -> str:
        """Describe the committed or acknowledged changes that the broker lacks, if any."""
        demanded = max(committed, self._acknowledged.high_watermark)
        log_end = quorum.log_ends.get(broker_id, -1)
        if log_end >= demanded:
            return ""
        return f"the broker has read the metadata up to offset {log_end}, not {demanded}"

    def _note_commit(self, quorum: Quorum, asked: float) -> str:
        """Note the quorum's high watermark. Return its fault, or an empty text."""
        if quorum.high_watermark < 0:
            return "the quorum has no leader"
        if quorum.high_watermark < self._high_watermark:
            return (
                f"the cluster's metadata ends at offset {quorum.high_watermark}, but was "
                f"previously read up to offset {self._high_watermark}. If the cluster was "
                "restored, stop the"
                " daemon and run `authorizerd reset-copy`"
            )
        self._acknowledged.note_commit(quorum.high_watermark, asked)
        return ""

    def _note_applied(self, broker_id: int, quorum: Quorum) -> None:
        log_end = quorum.log_ends.get(broker_id, -1)
        self._acknowledged.note_applied(log_end, self._now + SETTLE_SECONDS)

    def _follow(self, pin: _Pin) -> _Script[None]:
        """Poll a broker until it fails, or is not current, ``TRIES_MAX`` consecutive times."""
        tries = 0
        while True:
            try:
                yield from self._poll(pin)
            except _FailedError as error:
                tries += 1
                if tries >= TRIES_MAX:
                    raise _LostError(str(error)) from None
                yield Wait(self._pauses.after_failure(), problem=f"broker {pin.broker_id}: {error}")
            else:
                tries = 0

    def _poll(self, pin: _Pin) -> _Script[None]:
        """Ask for one listing, accept it unless it is older than the state in force, and rest.

        Raises:
            _FailedError: there was no complete listing, or the broker is not current.
        """
        asked = self._now
        listed = yield from _ask(AskListing())
        if not isinstance(listed, Listed):
            raise _FailedError(_describe(listed))
        quorum = (yield from self._ask_quorum(pin)) if pin.has_quorum else None
        doubt = self._find_doubt(pin, listed, asked)
        if not doubt:
            yield from self._accept(pin, listed, quorum, asked)
            self._pauses.succeed()
        yield from self._rest(listed, f"broker {pin.broker_id}: {doubt}" if doubt else "")

    def _ask_quorum(self, pin: _Pin) -> _Script[Quorum]:
        asked = self._now
        quorum = yield from _ask(AskQuorum())
        if not isinstance(quorum, Quorum):
            raise _FailedError(_describe(quorum))
        fault = self._note_commit(quorum, asked)
        if fault:
            raise _FailedError(fault)
        self._note_applied(pin.broker_id, quorum)
        return quorum

    def _find_doubt(self, pin: _Pin, listed: Listed, asked: float) -> str:
        """Return why the broker may be older than what is in force, or an empty text."""
        if pin.is_trusted:
            return ""
        lacking = self._acknowledged.count_lacking(listed.shown, asked)
        if lacking:
            return f"the listing lacks {lacking} acknowledged changes"
        if listed.is_equal or self._is_new_enough(pin, asked):
            return ""
        return "the first listing of this connection differs: it must still differ one poll later"

    def _is_new_enough(self, pin: _Pin, asked: float) -> bool:
        """Return True if a broker's listing is known to be as new as the state in force."""
        if pin.first_asked is None:
            pin.first_asked = asked
        has_waited = asked - pin.first_asked >= (1 - JITTER) * self._poll_seconds
        return pin.has_quorum or has_waited or not self._has_state

    def _accept(
        self, pin: _Pin, listed: Listed, quorum: Quorum | None, asked: float
    ) -> _Script[None]:
        is_current = quorum is None or pin.lag.is_current(quorum, pin.broker_id, self._now)
        shown = self._acknowledged.find_shown(listed.shown, asked)
        high_watermark = -1 if quorum is None else quorum.high_watermark
        yield Accept(shown, high_watermark, is_current)
        self._acknowledged.remove(shown, asked)
        # An equal listing may come from an older state with the same ACLs.
        pin.is_trusted = pin.is_trusted or self._is_new_enough(pin, asked)
        self._has_state = True
        self._high_watermark = high_watermark
        if not is_current:
            raise _FailedError(f"the broker lacks what was committed {LAG_SECONDS:g} s ago")

    def _rest(self, listed: Listed, problem: str) -> _Script[None]:
        """Wait until the next listing is due, or a new barrier asks for it."""
        pause = self._pauses.after_listing(listed, is_awaited=bool(self._acknowledged))
        earliest = self._now + self._pauses.before_eager(listed)
        event = yield Wait(pause, ends_early=True, problem=problem)
        if isinstance(event, Woken) and self._now < earliest:
            yield Wait(earliest - self._now)


def _ask(action: Action) -> _Script[Event]:
    """Return the answer to an action.

    Raises:
        _LostError: the connection broke.
    """
    event = yield action
    if isinstance(event, Broken):
        raise _LostError(event.reason)
    return event


def _describe(event: Event) -> str:
    assert isinstance(event, Refused | Unserved), f"unexpected answer of the task: {event}"
    return event.reason


def _hides_brokers(quorum: Quorum, brokers: Sequence[Target]) -> bool:
    """Return True if the quorum's leader names none of the brokers.

    A proxy may give the brokers different ids.
    """
    is_named = any(broker.broker_id in quorum.log_ends for broker in brokers)
    return quorum.high_watermark >= 0 and not is_named
