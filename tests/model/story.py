"""A story: what clients ask, when they give up, and what happens to the process and its disk.

**Invariant:** every run of a story gives the same result, so a story that breaks an invariant can
be shortened.
"""

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from enum import IntEnum
from typing import Any, Final

import msgspec

from authorizerd.acl import model
from authorizerd.config.follow.settings import SourceKind

ROOT: Final = "User:root"
USERS: Final = (ROOT, "User:a")
PEER: Final = "10.0.0.1"
"""The address from which all clients connect."""
INSIDE: Final = "inside"
KAFKA: Final = "Kafka"
HTTP: Final = "decision_http"
STREAM: Final = "decision_stream"
EARLY: Final = "EARLY"
LATE: Final = "LATE"
TIMEOUTS_MS: Final = (100, 700, 2000)
EVERY_NODE: Final = ""
THIS_NODE: Final = "1"


@dataclass(frozen=True, slots=True)
class Create:
    """Create ACLs."""

    acls: tuple[model.Acl, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the ACLs that the filters match."""

    filters: tuple[model.AclFilter, ...]


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

    questions: tuple[model.Question, ...]
    pause_s: float | None = None


@dataclass(frozen=True, slots=True)
class Describe:
    """Describe the ACLs that a filter matches."""

    filter: model.AclFilter


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
class Event:
    """What happens to the followed cluster ``delay_s`` after the event before it.

    ``number`` chooses a controller, and whatever else the kind of event leaves open.
    """

    delay_s: float
    kind: str
    number: int
    acls: tuple[model.Acl, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerFault:
    """What happens to a worker, ``delay_s`` after the fault before it.

    ``kind`` is "kill", "stop" for a number of ``seconds``, or "refuse" for a process that cannot
    be started. ``number`` chooses one of those that run.
    """

    delay_s: float
    kind: str
    number: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Client:
    """A caller of one endpoint.

    Attributes:
        surface: INSIDE calls the authorizer itself, as a listener does. All others connect to a
            port, and ``principal`` logs in to those of KAFKA.
        cut_after: the first connection is cut after this many bytes in one direction, the next one
            after twice as many, and so on; None: never.
    """

    endpoint: str
    principal: str
    calls: tuple[Call, ...]
    surface: str = INSIDE
    cut_after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One process.

    It shuts down ``rest_s`` after its clients have finished, but at ``end_s`` at the latest. If
    ``is_killed``, it is killed at ``end_s`` instead. The ``crash_`` and ``fail_`` fields set the
    disk's faults; each disk call takes one of ``stalls_s``. If ``has_short_turns``, long work runs
    in the smallest steps. Bytes on the network take one of ``delays_s``, and arrive in pieces of
    any size if it ``splits`` them. They do not arrive during ``partitions``, each of which lasts
    from a time until another.

    ``events`` happen to the followed cluster, which cannot be reached during ``outages``. If
    ``forwards`` names principals, their changes are forwarded as theirs; otherwise the daemon makes
    all changes as itself. ``poll_ms``, ``hides_quorum`` and ``trusts_root`` are as in ``Cluster``
    and ``authorizerd.source.poll.ms``.

    With ``workers`` above 1, these decide instead of the daemon. Bytes of their feeds take one of
    ``feed_delays_s``, and the feeds of the first workers are cut after ``feed_cuts`` bytes.
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
    delays_s: tuple[float, ...] = (0.0,)
    splits: bool = False
    partitions: tuple[tuple[float, float], ...] = ()
    events: tuple[Event, ...] = ()
    outages: tuple[tuple[float, float], ...] = ()
    stale_max_ms: int = 300_000
    serves_copy: bool = False
    poll_ms: int = 1000
    hides_quorum: bool = False
    forwards: tuple[str, ...] = ()
    trusts_root: bool = True
    workers: int = 1
    worker_timeout_ms: int = 10_000
    worker_faults: tuple[WorkerFault, ...] = ()
    feed_delays_s: tuple[float, ...] = (0.0,)
    feed_cuts: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """Processes that run one after the other on the same disk, with ACLs from one ``source``."""

    seed: int
    lives: tuple[Life, ...]
    source: SourceKind = SourceKind.LOG


_PARTS: Final = {
    "lives": 0, "clients": 0, "events": 0, "worker_faults": 0, "calls": 0, "acls": 1, "filters": 1,
    "questions": 1,
}  # fmt: skip
"""Fields with parts that a story can do without, and how many must be left."""
_KEPT: Final = ("source", "surface")
"""Fields whose default is not simpler."""
_SIMPLEST: Final = {"delay_s": 0.0}
"""The simplest values of fields without a default."""


def smaller(whole: Any) -> Iterator[Any]:  # noqa: ANN401 - a story, or any part of it
    """Yield copies of a story, or of a part of it, with a part fewer or with one field reset."""
    if not is_dataclass(whole) or isinstance(whole, type):
        return
    for each in fields(whole):
        name, value, usual = each.name, getattr(whole, each.name), each.default
        less: Iterable[Any] = ()
        if name in _PARTS:
            less = _less(value, _PARTS[name])
        elif name == "step":
            less = smaller(value)
        elif name not in _KEPT:
            usual = _SIMPLEST.get(name, value) if usual is MISSING else usual
            less = [usual] if value != usual else ()
        for value in less:
            yield replace(whole, **{name: value})


def _less(items: tuple[Any, ...], least: int) -> Iterator[tuple[Any, ...]]:
    """Yield all items but one, or one half of many; then all, with one of them smaller."""
    if least and len(items) > 4:
        yield items[: len(items) // 2]
        yield items[len(items) // 2 :]
    elif len(items) > least:
        for number in range(len(items)):
            yield (*items[:number], *items[number + 1 :])
    for number, item in enumerate(items):
        for each in smaller(item):
            yield (*items[:number], each, *items[number + 1 :])


_LINES: Final = ("lives", "clients", "events", "worker_faults", "calls")
"""Fields whose items have lines of their own, below that of the whole, when it is told."""
_CODES: Final[dict[str, type[IntEnum]]] = {
    "operation": model.Operation,
    "pattern_type": model.PatternType,
    "permission_type": model.PermissionType,
    "resource_type": model.ResourceType,
}


def text_of(story: Story) -> str:
    """Tell a story in readable lines, without default values."""
    return "\n".join(_lines(story, ""))


def _lines(part: Any, indent: str) -> Iterator[str]:  # noqa: ANN401 - a part of a story
    yield indent + _show(part)
    for each in fields(part):
        for item in getattr(part, each.name) if each.name in _LINES else ():
            yield from _lines(item, f"{indent}  ")


def _show(value: Any) -> str:  # noqa: ANN401 - whatever stories have
    if isinstance(value, tuple):
        return f"({'; '.join(map(_show, value))})"
    if isinstance(value, msgspec.Struct):
        kind = msgspec.structs.fields(value)
        shown = [
            f"{each.name}={_name(each.name, given)}"
            for each in kind
            if (given := getattr(value, each.name)) != each.default
        ]
    elif is_dataclass(value):
        shown = [f"{each.name}={_show(getattr(value, each.name))}" for each in _unusual(value)]
    else:
        return repr(value)
    return f"{type(value).__name__}({', '.join(shown)})"


def _unusual(value: Any) -> Iterator[Field[Any]]:  # noqa: ANN401 - any dataclass
    for each in fields(value):
        is_usual = each.default is not MISSING and getattr(value, each.name) == each.default
        if each.name not in _LINES and not is_usual:
            yield each


def _name(field: str, value: object) -> str:
    codes = _CODES.get(field)
    known = {} if codes is None else {int(each): each.name for each in codes}
    return known.get(value, repr(value)) if isinstance(value, int) else repr(value)
