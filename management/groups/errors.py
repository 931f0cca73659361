"""The errors of groups."""

from __future__ import annotations

from typing import Literal, TypeAlias

from authorizerd.management.plan.errors import PlanError

Kind: TypeAlias = Literal["invalid", "away", "partial", "empty"]


class GroupsError(PlanError):
    """Groups that cannot be read as a whole, so nothing is planned.

    ``kind`` is ``away`` if the directory did not answer, ``partial`` if it left something out,
    ``empty`` if a group has no members, and ``invalid`` for everything else.
    """

    def __init__(self, place: str, reason: str, kind: Kind = "invalid") -> None:
        super().__init__(place, reason)
        self.kind: Kind = kind
