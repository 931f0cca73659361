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
from collections import deque
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
from authorizerd.acl.audit.recorded.kafka_line import PRINCIPAL
from authorizerd.acl.audit.recorded.requests import LineFacts, read_facts

BLOCK_BYTES: Final = 1 << 20
FRAGMENTS_MAX: Final = 20
"""After the beginning of a broken line, this many lines may be parts of a name in it."""
_ACLS: Final = b"teAcls"
"""Is in every line of CreateAcls and DeleteAcls."""
_HEARTBEAT: Final = b"BrokerHeartbeat"
_MINUTE: Final = slice(0, 17)
"""In a line with the usual layout, the time up to the minute."""
_EVERY: Final = 64
_GROUP: Final = b" (kafka.authorizer.logger) [knownBy="
"""Is in every line that the daemon writes in Kafka's format."""
_PRINCIPAL: Final = PRINCIPAL.encode()
_ARCHIVES: Final[dict[str, Callable[[BinaryIO], BinaryIO]]] = {
    ".gz": cast("Callable[[BinaryIO], BinaryIO]", partial(gzip.open, mode="rb")),
    ".bz2": cast("Callable[[BinaryIO], BinaryIO]", bz2.BZ2File),
    ".xz": cast("Callable[[BinaryIO], BinaryIO]", lzma.LZMAFile),
}
_ROTATED: Final = re.compile(r"(.+\.[A-Za-z]+)(?:[.-][0-9][0-9_-]*)*(?:\.(?:gz|bz2|xz))?")
_ERRORS: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)


class _LocalZone(tzinfo):
    """The zone of this machine, by the C library. A time that occurs twice is the earlier one."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        assert moment is not None, "only the offset of a moment is asked for"
        parts = (*moment.timetuple()[:8], -1)
        return timedelta(seconds=time.localtime(time.mktime(parts)).tm_gmtoff)

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
            left_out = f"only the newest part of the audit logs was read: {_describe(limits)}"
            break
        try:
            reader = _Reader(builder, zone)
            for lines, size in _read_blocks(path, left, deadline):
                left -= size
                reader.read(lines)
            reader.finish()
        except _ERRORS as error:
            left_out = _report(str(path), error, on_error)
        rotated = _ROTATED.fullmatch(path.name)
        builder.end_file(str(path.with_name(rotated[1]) if rotated else path))
    return builder.finish(left_out)


def _report(name: str, error: Exception, on_error: Callable[[str, Exception], None] | None) -> str:
    if on_error is not None:
        on_error(name, error)
    reason = error.strerror if isinstance(error, OSError) else None
    return f"an audit log cannot be read: {reason or error}"


def _describe(limits: Limits) -> str:
    return f"at most {limits.bytes_max >> 20} MiB, in {limits.seconds_max:g} s"


def _read_blocks(path: Path, bytes_max: int, deadline: float) -> Iterator[tuple[list[bytes], int]]:
    """Yield the whole lines at the end of a file, some at a time, and the size that was read."""
    with open(path, "rb") as plain:
        unpack = _ARCHIVES.get(path.suffix.lower())
        file: BinaryIO = plain
        rest, is_cut = b"", False
        if unpack is None:
            is_cut = plain.seek(0, os.SEEK_END) > bytes_max
            plain.seek(-bytes_max if is_cut else 0, os.SEEK_END if is_cut else os.SEEK_SET)
        else:
            file = unpack(plain)
        while bytes_max > 0 and time.monotonic() < deadline:
            block = file.read(min(BLOCK_BYTES, bytes_max))
            bytes_max -= len(block)
            *lines, rest = (rest + block).split(b"\n")
            yield lines[is_cut:] if block else [rest], len(block)
            is_cut = is_cut and not lines
            if not block:
                return


class _Reader:
    """Add the lines of one file to the evidence. Most only show that the log goes on.

    So few of those are parsed. Only the daemon writes offsets, and no client can put a line into
    its log. In a broker's log, a name with line breaks can look like such a line. So offsets count
    only in a file whose lines have the daemon's callers.
    """

    def __init__(self, builder: EvidenceBuilder, zone: tzinfo) -> None:
        self._builder: Final = builder
        self._zone: Final = zone
        self._before: Final[deque[bytes]] = deque(maxlen=FRAGMENTS_MAX)
        self._minute = b""
        self._written: Final[list[AuditedRequest]] = []
        self._is_daemons = True

    def read(self, lines: list[bytes]) -> None:
        """Add the next lines."""
        for number, line in enumerate(lines):
            if _ACLS in line:
                self._read_request(line)
            elif _HEARTBEAT in line or line[_MINUTE] != self._minute or not number % _EVERY:
                self._minute = line[_MINUTE]
                self._add(line, read_facts(line, self._zone))
            self._before.append(line)

    def finish(self) -> None:
        """Add the requests with offsets, if the file is the daemon's."""
        for request in self._written if self._is_daemons else ():
            self._builder.add_request(request)

    def _read_request(self, line: bytes) -> None:
        facts = read_facts(line, self._zone)
        # If a line right before is broken, this one may be a part of a name in it.
        if facts is None or any(
            _PRINCIPAL in each and read_facts(each, self._zone) is None for each in self._before
        ):
            self._builder.add_doubt()
            return
        for each in self._before:
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
