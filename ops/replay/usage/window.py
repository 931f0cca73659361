"""The time over which ACLs are judged, and which of them were there for all of it.

**Invariant:** what is not known to have been in force for the whole window is never called unused.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from authorizerd.replay.acl_set import AclSet, DatedAcl
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.usage.errors import UsageError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DAY_MS: Final = 86_400_000

HOW_TO_LOG_ALLOWED: Final = (
    "Kafka logs what it allows at DEBUG and only what it denies at INFO, the default: set "
    "log4j.logger.kafka.authorizer.logger=DEBUG (from Kafka 4 on, level: DEBUG of the logger "
    "kafka.authorizer.logger in log4j2.yaml) on every broker, wait, and ingest that log"
)


class Window(NamedTuple):
    """Milliseconds since 1970, both ends included."""

    begins_ms: int
    ends_ms: int


class Age(Enum):
    IN_FORCE = "in force for all of the window"
    ADDED_WITHIN = "added within the window, or after it"
    UNKNOWN = "of unknown age"


def window_of(ingested: Ingested, lookback_days: float | None) -> Window:
    """Return the time from the first event, or ``lookback_days`` before the last one, to the last.

    Raises:
        UsageError: what was ingested shows nothing that was allowed.
    """
    if ingested.first_at is None or ingested.last_at is None:
        raise UsageError("nothing was recorded: there are no events")
    if not ingested.allowed_events:
        raise UsageError(
            f"all {ingested.denied_events} recorded events are denials, so no ACL can be called "
            f"unused. {HOW_TO_LOG_ALLOWED}"
        )
    begins_ms, ends_ms = time_ms(ingested.first_at), time_ms(ingested.last_at)
    if lookback_days is not None:
        begins_ms = max(begins_ms, ends_ms - round(lookback_days * _DAY_MS))
    return Window(begins_ms, ends_ms)


def age_of(dated: DatedAcl, window: Window, *, assume_in_force: bool) -> Age:
    """Return whether the ACL was added before the window began."""
    if dated.added_ms is None:
        return Age.IN_FORCE if assume_in_force else Age.UNKNOWN
    return Age.IN_FORCE if dated.added_ms < window.begins_ms else Age.ADDED_WITHIN


def check_ages(acl_set: AclSet, *, assume_in_force: bool) -> None:
    """Refuse a source that dates none of its ACLs, unless they are said to be old enough.

    Raises:
        UsageError: it does, and they are not.
    """
    if assume_in_force or not acl_set.acls:
        return
    if all(item.added_ms is None for item in acl_set.acls):
        raise UsageError(
            f"{acl_set.source} does not say when its ACLs were added, so none can be said to have "
            "been in force: give the metadata log as the source, or --assume-in-force if they are "
            "all older than the recorded events"
        )


def time_ms(text: str) -> int:
    """Return the milliseconds since 1970 of an ISO 8601 time; one without a zone is in UTC."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // _MILLISECOND


def time_text(time_ms: int) -> str:
    """Return ISO 8601 in UTC, or the bare number where the calendar does not reach so far."""
    try:
        time = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
