"""The errors of plans."""

from __future__ import annotations

from authorizerd.acl.errors import AclError
from authorizerd.acl.text.printable import escape_unprintable


class PlanError(AclError):
    """A plan that cannot be made or read. ``place`` says where, for example ``steps``."""

    def __init__(self, place: str, reason: str) -> None:
        # On one line, whatever the names in a plan are.
        super().__init__(escape_unprintable(f"{place}: {reason}" if place else reason))
        self.place = place
        self.reason = reason
