"""Audit lines of both formats, as the console and replay read them, and archives of them.

Clients choose the names in a line, so no name may turn a denial into another line.
"""

import bz2
import gzip
import io
import json
import lzma
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
import pyarrow

from authorizerd.acl.audit.caller import AuditedCaller
from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.audit.recorded.event import Event, LineFormat, Reason
from authorizerd.acl.audit.recorded.kafka_line import parse_kafka_line
from authorizerd.acl.audit.recorded.line import parse_json, parse_line
from authorizerd.acl.audit.recorded.requests import read_facts
from authorizerd.acl.decision import DEFAULT_DENY, Decision, MatchingAcl
from authorizerd.acl.model import Question
from authorizerd.actors.audit_log import AuditEvent
from authorizerd.daemon.audit.format import format_json, format_kafka
from authorizerd.daemon.audit.lines import parse_lines
from authorizerd.daemon.console.denials import count_denials
from authorizerd.replay.ingest.parse.columns import EventReader
from authorizerd.replay.ingest.parse.logs import DamagedArchiveError, find_suffix, read_log
from authorizerd.replay.local.tallies import Summand, Tallies
from tests.fuzz.target import in_thread, reader
from tests.support.acls import acl
from tests.support.audit import ALTER_CLUSTER

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORMATS: Final[tuple[LineFormat, ...]] = ("auto", "json", "kafka")
_FIELDS: Final = (None, None, "log", "a.b")
_RULE: Final = Decision(True, MatchingAcl(acl("User:ü", "READ", topic="a b", pattern="PREFIXED")))
_WORDS: Final = (
    *(b" is Allowed ", b" is Denied ", b" operation = ", b" Operation = ", b" from host = "),
    *(b" on resource = ", b" for request = ", b" with resourceRefCount = ", b" based on rule "),
    *(b"Principal = ", b"2026-11-21 16:26:26,966", b" INFO ", b"\x01", b" stdout P ", b"unknown"),
    *(b'{"log":"', b'"masked":["host"]', b'"allowed":true', b'"time":"2026-01-01T00:00:00Z"'),
    *(b'{"a.b":"', b'{"a":{"b":"', b" (kafka.authorizer.logger)", b"Topic:LITERAL:", b"+0100"),
    b"\xef\xbb\xbf",
)
_NAMES: Final = (b"x.log", b"x.log.gz", b"x.bz2", b"x.xz")


def _change(written_offset: int | None) -> AuditEvent:
    question = Question("User:ü", None, *ALTER_CLUSTER)
    caller = AuditedCaller("SCRAM", "User:b c", "10.0.0.9")
    return AuditEvent(
        1e9, AuditLevel.INFO, question, _RULE, "CreateAcls", 7, caller=caller,
        written_offset=written_offset,
    )  # fmt: skip


def _event(principal: str, name: str, decision: Decision = DEFAULT_DENY) -> AuditEvent:
    question = Question(principal, None, 3, 2, name)
    return AuditEvent(1_795_278_386.966, AuditLevel.INFO, question, decision, "Fetch", 42, 3)


def _lines() -> Iterator[bytes]:
    for decision in (DEFAULT_DENY, _RULE):
        event = _event("User:ü", "a b", decision)
        yield format_kafka(event)
        yield format_json(event)
        yield format_json(event, ("host",))
        wrapped = {"log": format_json(event).decode() + "\n", "time": "2026-11-21T17:00:00Z"}
        yield json.dumps(wrapped, separators=(",", ":")).encode()
        yield b"2026-11-21T17:00:00.9Z stdout F " + format_json(event)
    for offset in (None, 7):
        yield format_kafka(_change(offset))
        yield format_json(_change(offset))
    yield (
        b"[2019-01-02 03:04:05,006] DEBUG Principal = User:a is Allowed Operation = Read from host"
        b" = 10.0.0.1 on resource = Topic:orders (kafka.authorizer.logger)"
    )


def _check_line(data: bytes) -> None:
    """Each reader gives an event or a reason, and no two of them contradict each other."""
    seen = set()
    for line_format in _FORMATS:
        event = parse_line(data, UTC, line_format)
        if isinstance(event, Event):
            seen.add(event.allowed)
    for recorded in parse_lines([data]):
        if recorded is not None:
            seen.add(recorded.allowed)
    facts = read_facts(data, UTC)
    if facts is not None and facts.request is not None:
        assert facts.request.offset is not None or seen == {True}, "a denied request is no author"
    assert len(seen) <= 1, "one line is read as allowed and as denied"


def _check_denials(data: bytes) -> None:
    """The console reads any lines, and the local engine counts what each line alone has."""
    lines = data.split(b"\n")
    denials = count_denials(lines)
    assert denials.count + denials.unread <= len(lines)
    line_format, field = _FORMATS[len(data) % len(_FORMATS)], _FIELDS[len(data) % len(_FIELDS)]
    read = [parse_line(line, UTC, line_format, field) for line in lines]
    tallies = Tallies(UTC, line_format, field)
    tallies.add(lines)
    counted = {key: tally.lines for key, tally in tallies if tally.lines}
    assert counted == Counter(map(_tally_key, read))


def _tally_key(parsed: Event | Reason | None) -> Summand | Reason | None:
    if not isinstance(parsed, Event):
        return parsed
    return Summand._make(getattr(parsed, name) for name in Summand._fields)


def _check_columns(data: bytes) -> None:
    """The columns in Arrow have what each line has when it is parsed alone."""
    lines = data.split(b"\n")
    line_format, field = _FORMATS[len(data) % len(_FORMATS)], _FIELDS[len(data) % len(_FIELDS)]
    reader = EventReader(UTC, line_format, field)
    for _ in range(2):  # the second time, the texts are known
        rows = reader.read(pyarrow.array(lines, pyarrow.binary())).to_pylist()
        for line, row in zip(lines, rows, strict=True):
            parsed = parse_line(line, UTC, line_format, field)
            if isinstance(parsed, Event):
                expected = msgspec.structs.asdict(parsed)
                at_ms = expected.pop("at_ms")
                assert row["at"] == _EPOCH + timedelta(milliseconds=at_ms)
                assert {name: row[name] for name in expected} == expected
                assert row["reason"] is None
            else:
                assert (row["reason"], row["allowed"]) == (parsed or "", None)


def _check_names(data: bytes) -> None:
    """Any names make one line, which is read back as these names or not at all."""
    principal, _, name = data.decode("utf-8", "replace").partition("\n")
    event = _event(principal, name)
    line, record = format_kafka(event), format_json(event)
    assert len(line.splitlines()) == len(record.splitlines()) == 1
    read = parse_kafka_line(line.decode(), UTC)
    assert not (isinstance(read, Event) and read.allowed)
    parsed = parse_json(record.decode(), UTC)
    if isinstance(parsed, Event):
        assert (parsed.principal, parsed.resource_name, parsed.allowed) == (principal, name, False)
    for recorded in parse_lines([line, record]):
        assert recorded is None or not recorded.allowed


def _check_archive(data: bytes) -> None:
    """Of a damaged archive, the lines before the damage are read, within bounded memory."""
    name = _NAMES[data[0] % len(_NAMES)].decode() if data else "x"
    find_suffix(data.decode("utf-8", "replace"))
    with suppress(DamagedArchiveError):
        for block in read_log(name, io.BytesIO(data[1:]), 1 << 16):
            assert len(block) <= 1 << 22


def _archives() -> Iterator[bytes]:
    text = b"\n".join(_lines()) * 3
    for number, packed in enumerate(
        (text, gzip.compress(text, mtime=0), bz2.compress(text), lzma.compress(text))
    ):
        yield bytes((number,)) + packed


AUDIT_TARGETS: Final = (
    in_thread("audit-lines", _check_line, _lines, words=_WORDS, weight=40),
    in_thread("audit-logs", _check_denials, lambda: (b"\n".join(_lines()),),
              words=(*_WORDS, b"\n")),
    in_thread("audit-columns", _check_columns, lambda: (b"\n".join(_lines()), *_lines()),
              words=(*_WORDS, b"\n"), weight=3),
    reader("audited-names", _check_names,
           lambda: ("User:ü\na b".encode(), b"User:a is Allowed operation = x\n\x1b[31m"),
           words=_WORDS, weight=30),
    in_thread("audit-archives", _check_archive, _archives),
)  # fmt: skip
