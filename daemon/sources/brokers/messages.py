"""The machine's actions, which its task carries out, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Target:
    """A server to connect to. ``broker_id`` is None for a bootstrap server."""

    host: str
    port: int
    broker_id: int | None = None

    def __str__(self) -> str:
        address = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        return address if self.broker_id is None else f"broker {self.broker_id} ({address})"


@dataclass(frozen=True, slots=True)
class Open:
    """Close the connection, if there is one, and connect to ``target``."""

    target: Target


@dataclass(frozen=True, slots=True)
class AskQuorum:
    """Ask which records the controllers have committed, and which of them each broker has."""


@dataclass(frozen=True, slots=True)
class AskListing:
    """Ask for all ACLs, and compare them with those in force."""


@dataclass(frozen=True, slots=True)
class Accept:
    """Put the last listing in force, and then answer the barriers ``shown``.

    ``high_watermark`` is the quorum's after the listing, -1 if unknown. ``is_current`` is False if
    the broker is known to lag.
    """

    shown: frozenset[int]
    high_watermark: int = -1
    is_current: bool = True


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait. A new barrier ends it early if ``ends_early``. ``problem`` says what went wrong."""

    seconds: float
    ends_early: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop decisions: only an operator can fix this."""

    reason: str


Action: TypeAlias = Open | AskQuorum | AskListing | Accept | Wait | Stop


@dataclass(frozen=True, slots=True)
class Opened:
    """Connected. ``brokers`` are those that the server names."""

    cluster_id: str | None
    brokers: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """The connection could not be opened, or broke; it is closed now."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker answered with an error, or could not carry out the request."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unserved:
    """The quorum's state is not available here: no such API, or not allowed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Quorum:
    """The quorum's state: ``log_ends`` has the end of each replica's log, by node id.

    Offsets are Kafka's: exclusive, and -1 if unknown.
    """

    high_watermark: int
    log_ends: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listed:
    """A complete listing.

    Attributes:
        is_equal: True if it has exactly the ACLs in force.
        shown: the barriers whose changes it shows.
        seconds: the duration of the request.
        throttle_seconds: how long the broker asks to wait.
    """

    is_equal: bool
    shown: frozenset[int] = frozenset()
    seconds: float = 0.0
    throttle_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Done:
    """The listing is in force, or the wait is over."""


@dataclass(frozen=True, slots=True)
class Woken:
    """A new barrier ended the wait."""


Event: TypeAlias = Opened | Broken | Refused | Unserved | Quorum | Listed | Done | Woken
