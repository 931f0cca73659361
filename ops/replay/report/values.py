"""Values that the templates derive from results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from authorizerd.acl.model import Code, Operation, ResourceType
from authorizerd.replay.report.wording import MISSING
from authorizerd.replay.usage.report import UsedAcl
from authorizerd.replay.whatif.report import OperationCount, PrincipalCount, ResourceCount

BARS_MAX: Final = 10
_QUESTION_FIELDS: Final = 5


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar for ``item``: ``first`` in the full tone, then ``second`` in a lighter one."""

    item: object
    first: int
    second: int
    numbers: tuple[int, int]

    @property
    def length(self) -> int:
        return self.first + self.second


def make_count_bars(
    ranked: Sequence[PrincipalCount | ResourceCount | OperationCount],
) -> list[Bar]:
    """Return bars for the first ``BARS_MAX`` counts; their lengths are the numbers of events."""
    return [Bar(each, each.events, 0, (each.events, each.tuples)) for each in ranked[:BARS_MAX]]


def make_use_bars(ranked: Sequence[UsedAcl]) -> list[Bar]:
    """Return bars for the first ``BARS_MAX`` ACLs; lengths are the numbers of events decided."""
    return [
        Bar(each, alone, others, (alone, others))
        for each in ranked[:BARS_MAX]
        for alone, others in [(each.alone.events, each.with_others.events)]
    ]


def rank_counts(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return (name, count), the highest count first; equal counts are ordered by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def rank_by_use(used: Sequence[UsedAcl]) -> list[UsedAcl]:
    """Return the ACLs with the most events first."""
    return sorted(used, key=lambda each: -(each.alone.events + each.with_others.events))


def name_question(question: Sequence[object]) -> list[str | None]:
    """Return principal, host, operation, resource type and resource name, without codes.

    A question that does not have five fields is returned as JSON in the first field.
    """
    if len(question) != _QUESTION_FIELDS:
        return [msgspec.json.encode(question).decode(), *[MISSING] * (_QUESTION_FIELDS - 1)]
    principal, host, operation, resource_type, resource_name = question
    return [
        str(principal),
        None if host is None else str(host),
        _name_code(Operation, operation),
        _name_code(ResourceType, resource_type),
        str(resource_name),
    ]


def _name_code(codes: type[Code], code: object) -> str:
    if not isinstance(code, int):
        return str(code)
    member = codes.read(code)
    return member.name if member == code else str(code)
