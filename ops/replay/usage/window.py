"""The time over which ACLs are judged, and the ACLs that were in force for all of it.

**Invariant:** an ACL that is not known to have been in force for the whole window is never called
unused.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from authorizerd.acl.model import Acl
from authorizerd.replay.acl_set import AclSet, DatedAcl
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.text import parse_time
from authorizerd.replay.usage.errors import UsageError

_DAY_MS: Final = 86_400_000

HOW_TO_LOG_ALLOWED: Final = (
    "Kafka logs allowed requests at DEBUG and denied ones at INFO, which is the default. On every "
    "broker, set log4j.logger.kafka.authorizer.logger=DEBUG (since Kafka 4: level: DEBUG of the "
    "logger kafka.authorizer.logger in log4j2.yaml), wait, and ingest the new log"
)


class Window(NamedTuple):
    """Milliseconds since 1970, both ends included."""

    begins_ms: int
    ends_ms: int


class Age(Enum):
    """Whether an ACL was in force during the window."""

    IN_FORCE = "in force for all of the window"
    ADDED_WITHIN = "added within the window, or after it"
    UNKNOWN = "of unknown age"


def window_of(ingested: Ingested, lookback_days: float | None) -> Window:
    """Return the window, which ends at the last event.

    It begins at the first event, but at most ``lookback_days`` before the last one.

    Raises:
        UsageError: the events contain no allowed request.
    """
    if ingested.first_at is None or ingested.last_at is None:
        raise UsageError("there are no events, so no ACL can be judged")
    if not ingested.allowed_events:
        raise UsageError(
            f"all {ingested.denied_events} recorded events are denials, so no ACL can be called "
            f"unused. {HOW_TO_LOG_ALLOWED}"
        )
    begins_ms, ends_ms = parse_time(ingested.first_at), parse_time(ingested.last_at)
    if lookback_days is not None:
        begins_ms = max(begins_ms, ends_ms - round(lookback_days * _DAY_MS))
    return Window(begins_ms, ends_ms)


def age_of(dated: DatedAcl, window: Window, *, assume_in_force: bool) -> Age:
    """Return whether the ACL was in force for the whole window."""
    if dated.added_ms is None:
        return Age.IN_FORCE if assume_in_force else Age.UNKNOWN
    return Age.IN_FORCE if dated.added_ms < window.begins_ms else Age.ADDED_WITHIN


def distinct(acl_set: AclSet) -> tuple[DatedAcl, ...]:
    """Return each ACL once, in the set's order; a listing may contain one twice."""
    first: dict[Acl, DatedAcl] = {}
    for item in acl_set.acls:
        first.setdefault(item.acl, item)
    return tuple(first.values())


def check_ages(acl_set: AclSet, *, assume_in_force: bool) -> None:
    """Reject a source that dates none of its ACLs, unless ``assume_in_force`` is set.

    Raises:
        UsageError: no ACL has a date.
    """
    if assume_in_force or not acl_set.acls:
        return
    if all(item.added_ms is None for item in acl_set.acls):
        raise UsageError(
            f"{acl_set.source} does not say when its ACLs were added, so their age is unknown. Use "
            "the metadata log as the source, or --assume-in-force if all ACLs are older than the "
            "recorded events"
        )
