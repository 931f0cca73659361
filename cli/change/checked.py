"""The result of a check of a plan."""

from __future__ import annotations

from typing import NamedTuple

from authorizerd.acl.plan.document import PlanCheck


class Checked(NamedTuple):
    """The result of a check, and the lines about it for people."""

    result: PlanCheck
    lines: tuple[str, ...]
