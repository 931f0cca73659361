"""Read what audit logs say about changes of ACLs: the requests, and the times that they cover.

**Invariant:** what is not read is named in ``Evidence.left_out``. No more is read than the limits
allow, the newest files first.

Reading blocks.
"""

from __future__ import annotations

import glob
import gzip
import lzma
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import BinaryIO, Final, cast

import msgspec

from authorizerd.acl.audit.authors import (
    DEFAULT_WINDOW,
    AuditedRequest,
    Evidence,
    EvidenceBuilder,
    Window,
)
from authorizerd.acl.audit.recorded.kafka_line import PRINCIPAL, REQUEST
from authorizerd.acl.audit.recorded.requests import read_facts

BLOCK_BYTES: Final = 1 << 20
SAMPLES: Final = 128
"""How many other lines of a block are parsed, for the times that the log spans."""
FRAGMENTS_MAX: Final = 20
"""After the beginning of a broken line, this many lines may be parts of a name in it."""
_BEFORE_BYTES: Final = 16 * 1024
_ACLS: Final = b"teAcls"
"""Is in every line of CreateAcls and DeleteAcls."""
_HEARTBEAT: Final = b"BrokerHeartbeat"
_GROUP: Final = b" (kafka.authorizer.logger) [knownBy="
"""Is in every line that the daemon writes in Kafka's format."""
_PRINCIPAL: Final = PRINCIPAL.encode()
_REQUEST: Final = REQUEST.encode()
_ROTATED: Final = re.compile(r"(.+\.[A-Za-z]+)(?:[.-][0-9][0-9_-]*)*(?:\.(?:gz|xz))?")
_ERRORS: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)

OnError = Callable[[str, Exception], None]
"""Called with the name of a file that cannot be read. It may raise an error."""


class _LocalZone(tzinfo):
    """The zone of this machine. A time that occurs twice is the earlier one."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        # Not ``time.mktime``: which of two times it returns depends on earlier calls.
        return None if moment is None else moment.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return None


LOCAL_ZONE: Final = _LocalZone()


class AuditLogs(msgspec.Struct, frozen=True):
    """A path, a directory or a glob of audit logs, and the zone of times without one."""

    pattern: str
    zone: tzinfo = UTC


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Files last changed before ``since_ms`` are not read, nor more than the others allow.

    ``bytes_max`` is the size of the unpacked lines.
    """

    since_ms: int = 0
    bytes_max: int = 1 << 62
    seconds_max: float = float("inf")


def read_evidence(
    logs: Iterable[AuditLogs],
    limits: Limits,
    window: Window = DEFAULT_WINDOW,
    on_error: OnError = lambda name, error: None,
) -> Evidence:
    """Return what the logs say. Rotated files are found by their names."""
    builder, left_out = EvidenceBuilder(window), None
    budget = _Budget(limits.bytes_max, time.monotonic() + limits.seconds_max)
    oldest_s = (limits.since_ms - window.latency_ms - window.skew_ms) / 1000
    files: dict[str, tuple[float, tzinfo]] = {}
    for each in logs:
        try:
            for changed_s, name in _find(each.pattern):
                files.setdefault(name, (changed_s, each.zone))
        except OSError as error:
            left_out = _report(each.pattern, error, on_error)
    for name, (changed_s, zone) in sorted(files.items(), key=lambda file: -file[1][0]):
        if changed_s < oldest_s:
            continue
        reader = _Reader(builder, zone)
        try:
            for block in budget.read(name):
                reader.read(block)
        except _ERRORS as error:
            left_out = _report(name, error, on_error)
        reader.finish()
        rotated = _ROTATED.fullmatch(name)
        builder.end_file(name if rotated is None else rotated[1])
    if budget.is_exceeded:
        size = f"{limits.bytes_max >> 20} MiB at most, in {limits.seconds_max:g} s"
        left_out = f"only a part of the audit logs was read: the newest {size}"
    return builder.finish(left_out)


def _find(pattern: str) -> list[tuple[float, str]]:
    """Return the time of the last change of each file, in seconds since 1970, and its name."""
    pattern = os.path.join(pattern, "*") if os.path.isdir(pattern) else pattern
    found = {name: os.stat(name) for end in ("", "[.-][0-9]*") for name in glob.glob(pattern + end)}
    if not found:
        raise FileNotFoundError("no such file")
    return [(each.st_mtime, name) for name, each in found.items() if stat.S_ISREG(each.st_mode)]


def _report(name: str, error: Exception, on_error: OnError) -> str:
    on_error(name, error)
    reason = error.strerror if isinstance(error, OSError) else None
    return f"an audit log cannot be read: {reason or error}"


class _Budget:
    """How much more may be read.

    ``is_exceeded`` is True once a part was not read.
    """

    def __init__(self, left: int, deadline: float) -> None:
        self._left = left
        self._deadline: Final = deadline
        self.is_exceeded = False

    def read(self, name: str) -> Iterator[bytes]:
        """Yield blocks of the whole lines at the end of a file."""
        with open(name, "rb") as plain:
            file, is_cut, rest = _unpack(name, plain), False, b""
            if file is plain:
                skipped = max(0, plain.seek(0, os.SEEK_END) - self._left)
                plain.seek(skipped)
                is_cut = skipped > 0
            self.is_exceeded = self.is_exceeded or is_cut
            while block := file.read(BLOCK_BYTES):
                if self._left <= 0 or time.monotonic() >= self._deadline:
                    self.is_exceeded = True
                    return
                self._left -= len(block)
                lines, end, rest = (rest + block).rpartition(b"\n")
                yield lines.partition(b"\n")[2] if is_cut else lines
                is_cut = is_cut and not end
            yield rest


def _unpack(name: str, file: BinaryIO) -> BinaryIO:
    if name.lower().endswith(".gz"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    return cast("BinaryIO", lzma.LZMAFile(file)) if name.lower().endswith(".xz") else file


class _Reader:
    """Add the lines of one file to the evidence.

    Only the daemon writes offsets, and no client can put a line into its log. In a broker's log, a
    name with line breaks can look like such a line. So offsets count only in a file whose lines
    have the daemon's callers.
    """

    def __init__(self, builder: EvidenceBuilder, zone: tzinfo) -> None:
        self._builder: Final = builder
        self._zone: Final = zone
        self._last: list[bytes] = []
        self._written: Final[list[AuditedRequest]] = []
        self._is_daemons = True

    def read(self, block: bytes) -> None:
        """Add the next lines."""
        for start in _find_lines(block):
            end = block.find(b"\n", start)
            line = block[start:] if end < 0 else block[start:end]
            before: list[bytes] = []
            if _ACLS in line:
                earlier = block[max(0, start - _BEFORE_BYTES) : start].split(b"\n")[:-1]
                before = [*self._last, *earlier][-FRAGMENTS_MAX:]
            self._add(line, before)
        self._last = block[-_BEFORE_BYTES:].split(b"\n")

    def finish(self) -> None:
        """Add the requests with offsets, if the file is the daemon's."""
        for request in self._written if self._is_daemons else ():
            self._builder.add_request(request)

    def _add(self, line: bytes, before: list[bytes]) -> None:
        facts = read_facts(line, self._zone)
        if any(_PRINCIPAL in each and _GROUP not in each for each in (line, *before)):
            self._is_daemons = False
        # If a line right before is broken, this one may be a part of a name in it.
        is_doubtful = any(_PRINCIPAL in each and _REQUEST not in each for each in before)
        if facts is None or is_doubtful:
            if _ACLS in line:
                self._builder.add_doubt()
            return
        self._builder.add_time(
            facts.at_ms, is_allowed=facts.is_allowed, is_heartbeat=facts.is_heartbeat
        )
        if facts.request is not None and facts.request.offset is not None:
            self._written.append(facts.request)
        elif facts.request is not None:
            self._builder.add_request(facts.request)


def _find_lines(block: bytes) -> list[int]:
    """Return the positions of the lines to parse: requests, heartbeats, and a sample of the rest.

    The others are not even split, which would take most of the time.
    """
    positions = set(range(0, len(block), max(1, len(block) // SAMPLES)))
    for word in (_ACLS, _HEARTBEAT):
        found = block.find(word)
        while found >= 0:
            positions.add(found)
            found = block.find(word, found + len(word))
    return sorted({block.rfind(b"\n", 0, position) + 1 for position in positions})
