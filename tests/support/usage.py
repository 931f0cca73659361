"""A ``usage.json`` for the console, with the parts of one that ``replay usage`` writes."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from authorizerd.acl.model import Acl
from authorizerd.replay.judging.report import Count
from authorizerd.replay.usage.report import UnusedAcl, UsedAcl, WindowReport, named

USAGE_KEY = "authorizerd.console.usage.file"
BEGIN, END = "2026-08-01T00:00:00.000Z", "2026-11-29T23:59:58.000Z"
USED_AT = "2026-11-20T10:00:00.000Z"


def write_usage(path: Path, used: Iterable[Acl], unused: Iterable[Acl]) -> Path:
    """Write the parts of a ``usage.json`` that the console reads, and return its path."""
    window = WindowReport(
        begins_at=BEGIN, ends_at=END, allowed_first_at=BEGIN, allowed_last_at=END,
        lookback_days=None, allowed_events=1, denied_events=0, tuples=1,
    )  # fmt: skip
    uses = [
        UsedAcl(
            acl=named(each), added_at=None, alone=Count(), with_others=Count(),
            last_used_at=USED_AT, names=None,
        )
        for each in used
    ]  # fmt: skip
    rest = [UnusedAcl(acl=named(each), added_at=None) for each in unused]
    path.write_bytes(msgspec.json.encode({"window": window, "used": uses, "unused": rest}))
    return path
