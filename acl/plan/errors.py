"""The errors of plans."""

from __future__ import annotations

from authorizerd.acl.errors import AclError


class PlanError(AclError):
    """A plan that cannot be made or read. ``place`` says where, for example ``steps``."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}" if place else reason)
        self.place = place
        self.reason = reason
