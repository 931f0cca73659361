"""A story: what clients ask, when they give up, and what happens to the process and its disk.

**Invariant:** every run of a story gives the same result, so a story that breaks an invariant can
be shortened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from authorizerd.acl.model import Acl, AclFilter, Question

T = TypeVar("T")

ROOT: Final = "User:root"
EARLY: Final = "EARLY"
LATE: Final = "LATE"
TIMEOUTS_MS: Final = (100, 700, 2000)
EVERY_NODE: Final = ""
THIS_NODE: Final = "1"


@dataclass(frozen=True, slots=True)
class Create:
    """Create ACLs."""

    acls: tuple[Acl, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the ACLs that the filters match."""

    filters: tuple[AclFilter, ...]


@dataclass(frozen=True, slots=True)
class SetTimeout:
    """Set the time-out of updates for one node or all; None resets it."""

    node: str
    timeout_ms: int | None


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask questions of one pinned state, each followed by a pause.

    If ``pause_s`` is None, ask without pauses, and do not pin the state.
    """

    questions: tuple[Question, ...]
    pause_s: float | None = None


@dataclass(frozen=True, slots=True)
class Describe:
    """Describe the ACLs that a filter matches."""

    filter: AclFilter


@dataclass(frozen=True, slots=True)
class Reload:
    """Reload a file with these settings."""

    super_users: tuple[str, ...]
    allow_everyone: bool


Step = Create | Delete | SetTimeout | Ask | Describe | Reload


@dataclass(frozen=True, slots=True)
class Call:
    """One call. It is cancelled ``turns`` loop turns after ``patience_s``; None: never."""

    delay_s: float
    step: Step
    patience_s: float | None = None
    turns: int = 0


@dataclass(frozen=True, slots=True)
class Client:
    """A caller of one endpoint."""

    endpoint: str
    principal: str
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One process.

    It shuts down ``rest_s`` after its clients have finished, but at ``end_s`` at the latest. If
    ``is_killed``, it is killed at ``end_s`` instead. The ``crash_`` and ``fail_`` fields set the
    disk's faults; each disk call takes one of ``stalls_s``. If ``has_short_turns``, long work runs
    in the smallest steps.
    """

    seed: int
    clients: tuple[Client, ...] = ()
    rest_s: float = 0.0
    end_s: float | None = None
    is_killed: bool = False
    crash_in: int | None = None
    crash_at: str | None = None
    fail_in: int | None = None
    fail_at: str | None = None
    is_power_lost: bool = False
    stalls_s: tuple[float, ...] = (0.0,)
    has_short_turns: bool = False
    is_plugged_in: bool = False
    requests_max: int = 100
    timeout_ms: int = 2000
    checkpoint_bytes: int = 1 << 30
    retention_bytes: int = -1
    segment_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Story:
    """Processes that run one after the other on the same disk, drawn from one seed."""

    seed: int
    lives: tuple[Life, ...]


def text_of(story: Story) -> str:
    """Return the story as text, without default values."""
    lines = []
    for life in story.lives:
        usual = Life(seed=life.seed, clients=life.clients)
        odd = [
            f" {name}={getattr(life, name)}"
            for name in Life.__dataclass_fields__
            if getattr(life, name) != getattr(usual, name)
        ]
        lines.append(f"process with seed {life.seed}" + "".join(odd))
        for client in life.clients:
            lines.append(f"  {client.principal} at {client.endpoint}")
            lines += (f"    {call}" for call in client.calls)
    return "\n".join(lines)


def smaller(story: Story) -> Iterator[Story]:
    """Yield stories with one life, client or call fewer, or with one field of a life reset."""
    for number, life in enumerate(story.lives):
        yield Story(story.seed, _without(story.lives, number))
        for less in _smaller_lives(life):
            yield Story(story.seed, (*story.lives[:number], less, *story.lives[number + 1 :]))


def _smaller_lives(life: Life) -> Iterator[Life]:
    usual = Life(seed=life.seed, clients=life.clients)
    for field in Life.__dataclass_fields__:
        if getattr(life, field) != getattr(usual, field):
            yield replace(life, **{field: getattr(usual, field)})
    for number, client in enumerate(life.clients):
        yield replace(life, clients=_without(life.clients, number))
        for each in range(len(client.calls)):
            less = replace(client, calls=_without(client.calls, each))
            clients = (*life.clients[:number], less, *life.clients[number + 1 :])
            yield replace(life, clients=clients)


def _without(items: Sequence[T], number: int) -> tuple[T, ...]:
    return (*items[:number], *items[number + 1 :])
