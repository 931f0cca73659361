"""What ``authorizerd verify --follow`` has found, as its state file has it for all readers.

**Invariant:** what the file does not say is None, never zero. A file of another kind or version is
an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from authorizerd.protocol.json_faults import JSON_ERRORS, describe_json_fault, quote

KIND: Final = "authorizerd verify --follow"
VERSION: Final = 1
LATEST_MAX: Final = 50
"""The number of differences that the file keeps."""


class StateError(ValueError):
    """A file is not a state file of this version; the text says what it is instead."""


class Cause(StrEnum):
    """Why a decision differs. Tests are in this order."""

    PLUG_IN = "another authorizer decided"
    SUPER_USERS = "super.users differ"
    DEFAULT = "allow.everyone.if.no.acl.found differs"
    RELEASE = "another Kafka release decided"
    CLOCK = "the clock of the broker differs"
    OTHER_TIME = "the broker decided by an earlier or later state"
    HISTORY_LACKS = "an ACL that the history lacks"
    BROKER_LACKED = "an ACL that the broker lacked"
    UNKNOWN = "unknown"


class Moment(msgspec.Struct, frozen=True):
    """A place in the history; None where the source has none."""

    offset: int | None
    at: str | None


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """Equal decisions that differ; ``line`` is the first of them, ``state`` what judged it.

    ``recorded_rule`` is None if the line has none.
    """

    line: str
    first_at: str
    last_at: str
    events: int
    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    recorded_allowed: bool
    recorded_rule: str | None
    allowed: bool
    rule: str
    state: Moment
    detail: str


class Disagreement(Listed, frozen=True, kw_only=True):
    """Equal decisions that differ, with their cause."""

    cause: str


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts since the beginning. Each line counts in exactly one of them.

    Attributes:
        not_judged: events by reason.
        disagreements: events by cause.
        set_aside: lines without an event by reason.
        lost_files: files or partitions that were replaced or removed before they were known to be
            read.
        judged_since_ms: the earliest time of a judged event, and ``judged_ms`` the latest one.
        lost_records: records of topics that Kafka deleted before they were read.
    """

    agreed: int = 0
    other_rule: int = 0
    not_judged: Mapping[str, int] = {}
    disagreements: Mapping[str, int] = {}
    set_aside: Mapping[str, int] = {}
    blank: int = 0
    lost_files: int = 0
    judged_since_ms: int | None = None
    judged_ms: int | None = None
    lost_records: int = 0

    @property
    def lines(self) -> int:
        groups = (self.not_judged, self.disagreements, self.set_aside)
        return self.agreed + self.other_rule + self.blank + sum(sum(g.values()) for g in groups)


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """The lines that are not counted yet.

    Attributes:
        bytes: of all files, read or not.
        lines: those that were read and wait for the history.
        oldest_ms: the time of the oldest of these lines.
        history_ms: the time up to which the history is known.
        records: of all topics, read or not.
    """

    bytes: int = 0
    lines: int = 0
    oldest_ms: int | None = None
    history_ms: int | None = None
    records: int = 0


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the file, without the positions in the logs.

    Attributes:
        read_ms: when the logs were read last, 0 before the first time.
        latest: the newest differences, the last one first.
    """

    kind: str = KIND
    version: int = VERSION
    history: str
    window_ms: int
    read_ms: int = 0
    counts: Counts = Counts()
    lag: Lag = Lag()
    latest: tuple[Disagreement, ...] = ()


T = TypeVar("T", bound=Findings)


class _Head(msgspec.Struct, frozen=True):
    kind: str
    version: int


def decode_findings(data: bytes, contents: type[T]) -> T:
    """Return the contents of a state file.

    Raises:
        StateError: they are damaged, or of another program or version.
    """
    try:
        head = msgspec.json.decode(data, type=_Head)
        if (head.kind, head.version) == (KIND, VERSION):
            return msgspec.json.decode(data, type=contents)
    except JSON_ERRORS as error:
        text = describe_json_fault(error)
        raise StateError(f"not a state file, or a damaged one: {text}") from error
    found = f"{quote(head.kind)} version {head.version}"
    raise StateError(f"expected {KIND!r} version {VERSION}, found {found}")
