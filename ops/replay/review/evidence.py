"""How recorded traffic used each ACL within a review's window.

**Invariant:** an ACL is unused only if it was in force for the whole window, and the record covers
the window. Otherwise, an ACL without recorded use is "not known", with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from authorizerd.acl.model import Acl
from authorizerd.management.plan.traffic import TrafficFile
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.errors import UsageError
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.recorded.tuples import Source, find_gaps
from authorizerd.replay.text import format_time
from authorizerd.replay.usage.evaluation import (
    Age,
    Window,
    age_of,
    is_used,
    sum_window,
    window_of,
)
from authorizerd.replay.usage.uses import AclUsage, Counted, Summed

UNCOVERED_MAX: Final = 0.01
"""The share of the window that the record may lack at its beginning, and at its end."""
_WHOLE: Final = "The record does not show whether it has the logs of all brokers, without gaps."
_ASSUMED: Final = "ACLs of unknown age count as older than the window: --assume-in-force."


class Use(StrEnum):
    """Whether traffic used an ACL."""

    USED = "used"
    UNUSED = "unused"
    UNKNOWN = "not known"


class AclUse(NamedTuple):
    """How traffic used an ACL; ``reason`` says why it is not known."""

    use: Use
    usage: AclUsage | None = None
    reason: str = ""


class Evidence(NamedTuple):
    """The recorded traffic in the window.

    Attributes:
        window: None without usable traffic.
        failure: why there is no usable traffic, or an empty text.
        limits: what the record does not cover, as sentences. An ACL is unused only without any.
        notes: sentences about the record that hold for every ACL.
        facts: figures of the record, as texts by their titles.
        files: the audit logs that were read.
    """

    uses: Mapping[Acl, AclUse]
    window: Window | None = None
    failure: str = ""
    limits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    facts: Mapping[str, str] = {}
    files: tuple[TrafficFile, ...] = ()


def find_evidence(
    acl_set: AclSet, source: Source | None, since_s: int, *, assume_in_force: bool
) -> Evidence:
    """Return how the traffic of the last ``since_s`` seconds used the ACLs. May read logs twice.

    The window ends at the last event, or at the time of the ACLs if that is later.
    """
    files: tuple[TrafficFile, ...] = getattr(source, "files", ())
    try:
        if source is None:
            raise UsageError("no recorded traffic was given: pass --logs or --events")
        recorded = window_of(source.ingested, None)
        ends_ms = max(recorded.ends_ms, acl_set.stamped_ms or 0)
        window = Window(ends_ms - since_s * 1000, ends_ms)
        _, summed = sum_window(source, window, AclIndex.of(acl_set), 1)
    except UsageError as error:
        unknown = {item.acl: AclUse(Use.UNKNOWN) for item in acl_set.acls}
        return Evidence(unknown, failure=str(error), files=files)
    limits = tuple(_find_limits(source, window, summed))
    without = {
        Age.IN_FORCE: AclUse(Use.UNUSED),
        Age.ADDED_WITHIN: AclUse(Use.UNKNOWN, None, "it is younger than the window"),
        Age.UNKNOWN: AclUse(Use.UNKNOWN, None, "its age is not known"),
    }
    if limits:
        uncovered = AclUse(Use.UNKNOWN, None, "the record does not cover the window")
        without = dict.fromkeys(Age, uncovered)
    uses: dict[Acl, AclUse] = {}
    for item in acl_set.acls:
        usage = summed.usage.get(item.acl)
        is_known = usage is not None and is_used(item, usage)
        age = age_of(item, window, assume_in_force=assume_in_force)
        uses[item.acl] = AclUse(Use.USED, usage) if is_known else without[age]
    notes = (_WHOLE, *(_ASSUMED,) * assume_in_force)
    return Evidence(uses, window, "", limits, notes, _describe(source, summed), files)


def _find_limits(source: Source, window: Window, summed: Summed) -> Iterator[str]:
    """Yield what the record lacks."""
    allowed = summed.others[Counted.ALLOWED]
    tolerated_ms = UNCOVERED_MAX * (window.ends_ms - window.begins_ms)
    for begin_ms, end_ms in (
        (window.begins_ms, allowed.first_ms),
        (allowed.last_ms, window.ends_ms),
    ):
        if end_ms - begin_ms > tolerated_ms:
            span = f"from {format_time(begin_ms)} to {format_time(end_ms)}"
            yield f"The record has no allowed request {span}."
    for gap in find_gaps(source):
        yield f"Events may be missing: {gap}."


def _describe(source: Source, summed: Summed) -> dict[str, str]:
    allowed = summed.others[Counted.ALLOWED]
    counts = {
        "Denied requests": summed.count_of(Counted.DENIED).events,
        "Requests by super users": summed.count_of(Counted.BY_SUPER_USERS).events,
        "Recorded with another decision": summed.count_of(Counted.DISAGREEING).events,
        "Not decidable by ACLs": sum(each.events for each in summed.not_evaluated.values()),
        "Lines not read": source.ingested.set_aside,
    }
    span = f"{format_time(allowed.first_ms)} to {format_time(allowed.last_ms)}"
    return {
        "Allowed requests in the window": f"{allowed.events:,}, {span}",
        **{title: f"{count:,}" for title, count in counts.items()},
    }
