"""Compare what brokers show of a resource with our answers, without sockets.

**Invariant:** of a resource that is not visible, only DESCRIBE is compared. Each other operation
that is supported or reported is in exactly one of: judged, not judged, and not visible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from authorizerd.acl.model import Operation
from authorizerd.acl.operations import SUPPORTED
from authorizerd.cli.probe.brokers import Shown
from authorizerd.cli.probe.deciding import Asked, Decider, OwnAnswer
from authorizerd.cli.question_words import Resource

DEPENDS: Final = "depends on {}, which is not given"
UNKNOWN_OPERATION: Final = "bit {} of a {} is an operation that this version does not know"
UNREPORTED: Final = "Kafka before 4.0 does not report an operation on groups"
CHANGED: Final = "the answers change"

_BITS: Final = 31
"""The last bit of an int32 is the sign, which says that nothing was requested."""


class Judged(msgspec.Struct, frozen=True):
    """An operation on a resource, and both answers. ``allowed`` is that of the brokers."""

    resource: Resource
    operation: Operation
    allowed: bool
    ours: OwnAnswer
    is_visible: bool

    @property
    def is_different(self) -> bool:
        return self.allowed != self.ours.allowed


class Compared(msgspec.Struct, frozen=True):
    """One resource.

    Attributes:
        is_visible: None if no broker has said so.
        not_judged: how many operations are not judged, by reason.
        hidden: how many operations cannot be judged because the resource is not visible.
    """

    is_visible: bool | None
    judged: Sequence[Judged]
    not_judged: Counter[str]
    hidden: int = 0

    @property
    def differences(self) -> Iterator[Judged]:
        return (each for each in self.judged if each.is_different)


def compare(shown: Mapping[Resource, Shown], decider: Decider) -> dict[Resource, Compared]:
    """Return how each resource compares. Asks ``decider`` once."""
    asked = [(operation, resource) for resource in shown for operation in SUPPORTED[resource[0]]]
    answers = dict(zip(asked, decider.decide(asked), strict=True))
    return {resource: _compare(resource, each, answers) for resource, each in shown.items()}


def _compare(resource: Resource, shown: Shown, answers: Mapping[Asked, OwnAnswer]) -> Compared:
    kind, is_visible = resource[0], shown.is_visible
    judged: list[Judged] = []
    not_judged = Counter[str]()
    hidden = 0
    for operation in SUPPORTED[kind]:
        ours = answers[operation, resource]
        allowed = bool((shown.bits or 0) >> operation & 1)
        if operation is Operation.DESCRIBE and is_visible is not None:
            allowed = is_visible
        elif is_visible is False:
            hidden += 1
            continue
        elif shown.bits is None:
            not_judged[shown.reason] += 1
            continue
        if not allowed and operation in shown.unreported:
            not_judged[UNREPORTED] += 1
        elif allowed and not ours.allowed and ours.doubts:
            not_judged[DEPENDS.format(" and ".join(ours.doubts))] += 1
        else:
            judged.append(Judged(resource, operation, allowed, ours, bool(is_visible)))
    for bit in range(_BITS):
        if (shown.bits or 0) >> bit & 1 and bit not in SUPPORTED[kind]:
            not_judged[UNKNOWN_OPERATION.format(bit, kind.name)] += 1
    return Compared(is_visible, judged, not_judged, hidden)


def confirm(first: Compared, second: Compared) -> Compared:
    """Return the second comparison of a resource, with only the differences that stayed.

    A difference that is new, or the opposite of the first one, is not judged: the ACLs change.
    """
    stayed = {(each.operation, each.allowed) for each in first.differences}
    passing = [each for each in second.differences if (each.operation, each.allowed) not in stayed]
    return Compared(
        second.is_visible,
        [each for each in second.judged if each not in passing],
        second.not_judged + Counter({CHANGED: len(passing)}),
        second.hidden,
    )
