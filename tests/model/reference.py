"""Compute the effects of updates as simply as possible: one after another, on plain sets.

This shares no code with the plans, the filters, the index or the replay of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from authorizerd.acl import model
from authorizerd.actors.completion import Completion
from authorizerd.image.changes import ClusterChange, ConfigChanged, FeatureLevel
from tests.faults.workload import BrokenInvariantError, apply
from tests.model.story import EVERY_NODE, PEER, THIS_NODE, Create, Delete, SetTimeout
from tests.oracles.scan import decide

TIMEOUT_KEY: Final = "authorizerd.update.timeout.ms"
BROKER: Final = 4
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
CLUSTER_NAME: Final = "kafka-cluster"

INVALID: Final = "invalid"
"""The expected answer for an invalid item."""

Batch = Sequence[model.Change | ClusterChange]


@dataclass(frozen=True, slots=True)
class State:
    """All ACLs, and the time-outs that the log sets, by node."""

    acls: frozenset[model.Acl] = frozenset()
    timeouts: Mapping[str, str] = field(default_factory=dict)

    def timeout_ms(self, in_file: int) -> int:
        """Return the time-out in force if the settings file has ``in_file``."""
        everywhere = self.timeouts.get(EVERY_NODE, in_file)
        return int(self.timeouts.get(THIS_NODE, everywhere))


@dataclass(slots=True, eq=False)
class Request:
    """One update. ``offset`` is the offset of its batch, or -1."""

    step: Create | Delete | SetTimeout
    completions: Sequence[Completion[Any]] = ()
    expected: Sequence[object] = ()
    after: State = State()
    is_planned: bool = False
    number: int = -1
    offset: int = -1
    is_in_doubt: bool = False
    is_refused: bool = False
    is_acknowledged: bool = False
    times_reported: int = 0


def plan(before: State, step: Create | Delete | SetTimeout) -> tuple[State, list[object]]:
    """Return the state after ``step``, and the answer to each item."""
    match step:
        case Create(acls):
            good = [acl for acl in acls if is_valid(acl)]
            after = State(before.acls | {*good}, before.timeouts)
            return after, [None if is_valid(acl) else INVALID for acl in acls]
        case Delete(filters):
            found: list[object] = []
            removed: set[model.Acl] = set()
            for each in filters:
                if each.operation == 0:
                    found.append(INVALID)
                    continue
                matched = {acl for acl in before.acls if matches(each, acl)}
                removed |= matched
                found.append(matched)
            return State(before.acls - removed, before.timeouts), found
        case SetTimeout(node, timeout_ms):
            timeouts = {name: value for name, value in before.timeouts.items() if name != node}
            if timeout_ms is not None:
                timeouts[node] = str(timeout_ms)
            return State(before.acls, timeouts), [before.timeouts.get(node)]


def is_valid(acl: model.Acl) -> bool:
    return (
        2 <= acl.resource_type <= 7
        and acl.resource_name != ""
        and acl.pattern_type in (LITERAL, PREFIXED)
        and ":" in acl.principal
        and 2 <= acl.operation <= 15
        and acl.permission_type in (2, 3)
    )


def matches(filter: model.AclFilter, acl: model.Acl) -> bool:
    """Return True if a filter matches an ACL (KIP-290)."""
    for name in ("resource_type", "operation", "permission_type", "principal", "host"):
        if getattr(filter, name) not in (ANY, None, getattr(acl, name)):
            return False
    if filter.pattern_type not in (ANY, MATCH, acl.pattern_type):
        return False
    wanted, stored = filter.resource_name, acl.resource_name
    if wanted is None or wanted == stored:
        return True
    if filter.pattern_type != MATCH:
        return False
    return stored == "*" if acl.pattern_type == LITERAL else wanted.startswith(stored)


def may(acls: frozenset[model.Acl], principal: str, operation: model.Operation) -> bool:
    """Return True if ACLs allow a client this operation on the cluster."""
    question = model.Question(principal, PEER, operation, model.ResourceType.CLUSTER, CLUSTER_NAME)
    return decide(acls, False, question)[0]


@dataclass(slots=True)
class LogState:
    """The state after the records of a log."""

    acls: dict[bytes, model.Acl] = field(default_factory=dict)
    timeouts: dict[str, str] = field(default_factory=dict)

    def copy(self) -> LogState:
        return LogState(dict(self.acls), dict(self.timeouts))

    def apply(self, changes: Iterable[model.Change | ClusterChange]) -> None:
        """Make changes, or raise BrokenInvariantError if one does not fit, or was not requested."""
        for change in changes:
            match change:
                case model.AclAdded() | model.AclRemoved():
                    if isinstance(change, model.AclAdded) and change.acl in self.acls.values():
                        raise BrokenInvariantError(f"a record is written twice: {change.acl}")
                    apply(self.acls, change)
                case ConfigChanged(4, node, "authorizerd.update.timeout.ms", value):
                    before = self.timeouts.pop(node, None)
                    if value is not None:
                        self.timeouts[node] = value
                    elif before is None:
                        raise BrokenInvariantError("an absent config is removed")
                case FeatureLevel():
                    pass
                case _:
                    raise BrokenInvariantError(f"unexpected record: {change}")

    @property
    def state(self) -> State:
        return State(frozenset(self.acls.values()), dict(self.timeouts))
