"""Read what audit logs say about changes of ACLs: the requests, and the times that they cover.

**Invariant:** what is not read is named in ``Evidence.left_out``. No more is read than the limits
allow, the newest files first.

Reading blocks.
"""

from __future__ import annotations

import bz2
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
from functools import partial
from pathlib import Path
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
from authorizerd.acl.audit.recorded.requests import LineFacts, read_facts

BLOCK_BYTES: Final = 1 << 20
FRAGMENTS_MAX: Final = 20
"""After the beginning of a broken line, this many lines may be parts of a name in it."""
_ACLS: Final = b"teAcls"
"""Is in every line of CreateAcls and DeleteAcls."""
_HEARTBEAT: Final = b"BrokerHeartbeat"
SAMPLES: Final = 128
"""How many other lines of a block are parsed, for the times that the log spans."""
_BEFORE_BYTES: Final = 16 * 1024
_GROUP: Final = b" (kafka.authorizer.logger) [knownBy="
"""Is in every line that the daemon writes in Kafka's format."""
_PRINCIPAL: Final = PRINCIPAL.encode()
_REQUEST: Final = REQUEST.encode()
_ARCHIVES: Final[dict[str, Callable[[BinaryIO], BinaryIO]]] = {
    ".gz": cast("Callable[[BinaryIO], BinaryIO]", partial(gzip.open, mode="rb")),
    ".bz2": cast("Callable[[BinaryIO], BinaryIO]", bz2.BZ2File),
    ".xz": cast("Callable[[BinaryIO], BinaryIO]", lzma.LZMAFile),
}
_ROTATED: Final = re.compile(r"(.+\.[A-Za-z]+)(?:[.-][0-9][0-9_-]*)*(?:\.(?:gz|bz2|xz))?")
_ERRORS: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)


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
    """Audit logs: a path, a directory or a glob, and the zone of times without one.

    Rotated files are found by their names: ``x.log.1``, ``x.log-20260101.gz``.
    """

    pattern: str
    zone: tzinfo = UTC

    def find(self) -> Iterator[tuple[float, Path]]:
        """Yield each file, and the time of its last change in seconds since 1970."""
        pattern = os.path.join(self.pattern, "*") if os.path.isdir(self.pattern) else self.pattern
        for name in {*glob.iglob(pattern), *glob.iglob(f"{pattern}[.-][0-9]*")}:
            status = os.stat(name)
            if stat.S_ISREG(status.st_mode):
                yield status.st_mtime, Path(name)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is read.

    Attributes:
        since_ms: files that were last changed before this time are not read.
        bytes_max: the maximum number of bytes, unpacked.
        seconds_max: the maximum time.
    """

    since_ms: int = 0
    bytes_max: int = 1 << 62
    seconds_max: float = float("inf")


def read_evidence(
    logs: Iterable[AuditLogs],
    limits: Limits,
    window: Window = DEFAULT_WINDOW,
    on_error: Callable[[str, Exception], None] | None = None,
) -> Evidence:
    """Return what the logs say.

    Args:
        on_error: called with the name of a file that cannot be read. It may raise an error.
    """
    builder, left_out = EvidenceBuilder(window), None
    left, deadline = limits.bytes_max, time.monotonic() + limits.seconds_max
    files: dict[Path, tuple[float, tzinfo]] = {}
    for each in logs:
        try:
            found = {path: (changed_s, each.zone) for changed_s, path in each.find()}
            if not found:
                raise FileNotFoundError("no such file")
            files = found | files
        except OSError as error:
            left_out = _report(each.pattern, error, on_error)
    for path, (changed_s, zone) in sorted(files.items(), key=lambda item: -item[1][0]):
        if changed_s * 1000 < limits.since_ms - window.latency_ms - window.skew_ms:
            continue
        if left <= 0 or time.monotonic() >= deadline:
            left_out = _describe(limits)
            break
        file, reader = _File(path, left, deadline), _Reader(builder, zone)
        try:
            for block in file.blocks():
                reader.read(block)
        except _ERRORS as error:
            left_out = _report(str(path), error, on_error)
        reader.finish()
        left = file.left
        if not file.is_whole:
            left_out = _describe(limits)
        rotated = _ROTATED.fullmatch(path.name)
        builder.end_file(str(path.with_name(rotated[1]) if rotated else path))
    return builder.finish(left_out)


def _report(name: str, error: Exception, on_error: Callable[[str, Exception], None] | None) -> str:
    if on_error is not None:
        on_error(name, error)
    reason = error.strerror if isinstance(error, OSError) else None
    return f"an audit log cannot be read: {reason or error}"


def _describe(limits: Limits) -> str:
    return (
        "only a part of the audit logs was read: the newest "
        f"{limits.bytes_max >> 20} MiB at most, in {limits.seconds_max:g} s"
    )


class _File:
    """The whole lines at the end of a file.

    Attributes:
        left: how many more bytes may be read.
        is_whole: False if a part was not read.
    """

    def __init__(self, path: Path, left: int, deadline: float) -> None:
        self._path: Final = path
        self._deadline: Final = deadline
        self.left = left
        self.is_whole = True

    def blocks(self) -> Iterator[bytes]:
        """Yield blocks of whole lines."""
        with open(self._path, "rb") as plain:
            unpack = _ARCHIVES.get(self._path.suffix.lower())
            file: BinaryIO = plain if unpack is None else unpack(plain)
            if unpack is None:
                skipped = max(0, plain.seek(0, os.SEEK_END) - self.left)
                plain.seek(skipped)
                self.is_whole = not skipped
            rest, is_cut = b"", not self.is_whole
            while block := file.read(min(BLOCK_BYTES, self.left)):
                self.left -= len(block)
                lines, end, rest = (rest + block).rpartition(b"\n")
                yield lines.partition(b"\n")[2] if is_cut else lines
                is_cut = is_cut and not end
                if self.left <= 0 or time.monotonic() >= self._deadline:
                    self.is_whole = self.is_whole and not file.read(1)
                    return
            yield rest


class _Reader:
    """Add the lines of one file to the evidence. Most only show that the log goes on.

    So few of those are parsed. Only the daemon writes offsets, and no client can put a line into
    its log. In a broker's log, a name with line breaks can look like such a line. So offsets count
    only in a file whose lines have the daemon's callers.
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
            if _ACLS in line:
                self._read_request(line, block[max(0, start - _BEFORE_BYTES) : start])
            else:
                self._add(line, read_facts(line, self._zone))
        self._last = block[-_BEFORE_BYTES:].split(b"\n")

    def finish(self) -> None:
        """Add the requests with offsets, if the file is the daemon's."""
        for request in self._written if self._is_daemons else ():
            self._builder.add_request(request)

    def _read_request(self, line: bytes, before: bytes) -> None:
        facts = read_facts(line, self._zone)
        lines = [*self._last, *before.split(b"\n")[:-1]][-FRAGMENTS_MAX:]
        # If a line right before is broken, this one may be a part of a name in it.
        if facts is None or any(_PRINCIPAL in each and _REQUEST not in each for each in lines):
            self._builder.add_doubt()
            return
        for each in lines:
            self._check_ours(each)
        self._add(line, facts)

    def _add(self, line: bytes, facts: LineFacts | None) -> None:
        self._check_ours(line)
        if facts is None:
            return
        self._builder.add_time(
            facts.at_ms, is_allowed=facts.is_allowed, is_heartbeat=facts.is_heartbeat
        )
        if facts.request is None:
            return
        if facts.request.offset is None:
            self._builder.add_request(facts.request)
        else:
            self._written.append(facts.request)

    def _check_ours(self, line: bytes) -> None:
        if _PRINCIPAL in line and _GROUP not in line:
            self._is_daemons = False


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
