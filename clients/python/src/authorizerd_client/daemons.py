"""Choose the daemon that a client asks next, for how long, and when to return to another one.

Nothing here has a clock or a socket. All times are seconds of one clock, which the caller chooses.
"""

from __future__ import annotations

import math
import random
import ssl
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from authorizerd_client.backoff import Backoff
from authorizerd_client.errors import (
    AuthorizerdError,
    ConnectionLostError,
    NotReadyError,
    TimedOutError,
)
from authorizerd_client.tls import new_endpoint
from authorizerd_client.values import NOT_READY, Decisions, parse_address

FAILOVER_SECONDS: Final = 1.0
ATTEMPT_SECONDS_MIN: Final = 0.05
"""A shorter silence does not count against a daemon, however little time the caller has left."""
RETURN_SECONDS: Final = 10.0
"""A client tries an earlier address again after this time, or up to twice as long."""
RETURN_ATTEMPT_SECONDS: Final = 0.25
"""How long a question may wait for the attempt to return to an earlier address."""
_NOT_TRIED: Final = "no attempt to connect was made"

Outcome: TypeAlias = Decisions | AuthorizerdError


class Daemon:
    """One address.

    Attributes:
        tls: None without TLS.
        error: why the newest attempt to connect failed; None after one that succeeded.
    """

    def __init__(self, text: str, tls: ssl.SSLContext | None) -> None:
        self.text: Final = text
        self.address: Final = parse_address(text)
        self.tls: Final = new_endpoint(self.address, tls)
        self.backoff: Final = Backoff()
        self.error: str | None = None

    def is_due(self, now: float) -> bool:
        """Return True if the daemon may be tried."""
        return self.backoff.next_attempt <= now


class Daemons:
    """The daemons of one client, in the order in which the client prefers them.

    A daemon that fails is set aside: the client does not try it before its back-off has ended. The
    only daemon of a client is never set aside because of an answer.

    Args:
        addresses: one address or several.
        failover_seconds: how long one daemon may take while another could be asked.
        jitter: returns 0 to 1. It spreads the moments at which clients return to a daemon.

    Raises:
        ValueError: there is no address, an address is invalid, or ``tls`` is given and one of the
            addresses is without TLS.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        tls: ssl.SSLContext | None,
        failover_seconds: float,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        texts = [addresses] if isinstance(addresses, str) else addresses
        self._all: Final = [Daemon(text, tls) for text in texts]
        if not self._all:
            raise ValueError("expected at least one address, found none")
        self._failover_seconds: Final = failover_seconds
        self._jitter: Final = jitter
        self._return_time = -math.inf
        self.attempts_max: Final = len(self._all) + 1
        """How often one question may be sent."""

    @property
    def are_several(self) -> bool:
        """Return True if there is more than one address."""
        return len(self._all) > 1

    @property
    def next_attempt(self) -> float:
        """Return the first time at which a daemon may be tried."""
        return min(each.backoff.next_attempt for each in self._all)

    def choose(self, now: float) -> Daemon | None:
        """Return the daemon to connect to, or None if all are set aside.

        It is the first that has not failed. If all have failed, it is the one whose back-off ended
        first: otherwise, two silent daemons at the head of the list would hide all others.
        """
        due = [each for each in self._all if each.is_due(now)]
        return min(due, key=_rank, default=None)

    def choose_return(self, current: Daemon, now: float) -> Daemon | None:
        """Return an earlier daemon if it is time to try one again.

        This call starts the wait for the next attempt, so only one of several tasks gets a daemon.
        """
        if current is self._all[0] or now < self._return_time:
            return None
        self._plan_return(now)
        earlier = self._all[: self._all.index(current)]
        return next((each for each in earlier if each.is_due(now)), None)

    def record_connection(self, daemon: Daemon, now: float) -> None:
        """Record that the client has connected to ``daemon`` and will ask it."""
        daemon.error = None
        if not self.are_several:
            # With several daemons, only an answer ends the back-off: otherwise, each question would
            # try a daemon that is not ready or dies at each question.
            daemon.backoff.succeed()
        self._plan_return(now)

    def limit_attempt(
        self, daemon: Daemon, now: float, remaining: float, *, is_last: bool = False
    ) -> float:
        """Return how many seconds ``daemon`` may take before another one is asked.

        Args:
            remaining: the seconds that the caller still has.
            is_last: no further attempt will follow.

        Returns:
            infinity if no other daemon could be asked: only the caller's time limit applies.
        """
        others = self._count_others(daemon, now)
        if is_last or not others:
            return math.inf
        share = remaining / (others + 1)
        return max(ATTEMPT_SECONDS_MIN, min(self._failover_seconds, share))

    def should_repeat(self, daemon: Daemon, outcome: Outcome, now: float) -> bool:
        """Return True if the question should be asked again, elsewhere if possible."""
        if isinstance(outcome, ConnectionLostError):
            return True
        if isinstance(outcome, TimedOutError):
            return self.are_several
        return is_not_ready(outcome) and self._count_others(daemon, now) > 0

    def set_aside(self, daemon: Daemon, outcome: Outcome, now: float) -> None:
        """Record that ``daemon`` has failed, so that others are asked for a while."""
        daemon.error = "the ACLs are not loaded" if is_not_ready(outcome) else str(outcome)
        if self.are_several:
            daemon.backoff.fail(now)

    def explain(self) -> str:
        """Return why no daemon is connected, with the addresses if there are several."""
        if not self.are_several:
            return f"not connected: {self._all[0].error or _NOT_TRIED}"
        reasons = [f"{each.text}: {each.error or _NOT_TRIED}" for each in self._all]
        return f"not connected: {'; '.join(reasons)}"

    def _count_others(self, daemon: Daemon, now: float) -> int:
        return sum(each is not daemon and each.is_due(now) for each in self._all)

    def _plan_return(self, now: float) -> None:
        self._return_time = now + RETURN_SECONDS * (1 + self._jitter())


def _rank(daemon: Daemon) -> float:
    return daemon.backoff.next_attempt if daemon.backoff.failures else -math.inf


def is_not_ready(outcome: Outcome) -> bool:
    """Return True if a daemon answered that its ACLs are not loaded."""
    if isinstance(outcome, Decisions):
        # A frame without questions has no decisions, so check the offset.
        return NOT_READY in outcome.codes or (not outcome.codes and outcome.offset < 0)
    return isinstance(outcome, NotReadyError)
