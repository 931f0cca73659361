"""Inputs that once failed. Each run reads them first, and mutates them."""

from __future__ import annotations

from typing import Final, NamedTuple


class Found(NamedTuple):
    """An input, as small as possible, and what went wrong."""

    target: str
    data: bytes
    fault: str


_STREAM_HELLO: Final = b"\x00\x00\x00\x0a\x93\xa5hello\x01\xc0"

CORPUS: Final = (
    Found(
        "stream",
        _STREAM_HELLO + b"\x00\x00\x00\x08\x92\x01\x91\x95\xa2\xff\xff\xc0",
        "an error shows a text of Python",
    ),
    Found("stream", b"\x00\x00\x00\x05\x93\xa2\xff\xff\x01", "an error shows a text of Python"),
    Found(
        "stream-answers", b"\x00\x00\x00\x05\x94\xa2\xff\xff\x01", "an error shows a text of Python"
    ),
    Found(
        "znodes", b'{"acls":[{"principal":"\xc9"}],"version":1}', "an error shows a text of Python"
    ),
    Found("znodes", b'{"version":1,"a":' + b"[" * 1500, "deep JSON is a RecursionError"),
    Found("acl-files", b'{"path":"/kafka-acl","a":' + b"[" * 1500, "deep JSON is a RecursionError"),
    Found("acl-files", b"a: !!binary \xc3\xa9", "an error shows a text of Python"),
    Found("audit-lines", b'{"a":' + b"[" * 1500, "deep JSON is a RecursionError"),
    Found(
        "audit-lines",
        b'{"time":"2026-01-01T00:00:00Z","principal":"User:a","allowed":false,"operation":"READ",'
        b'"resource_type":"TOPIC","resource_name":"2026-01-01 00:00:00,000 INFO Principal = User:a'
        b" is Allowed operation = READ from host = b on resource = Topic:LITERAL:c for request = d"
        b' with resourceRefCount = 1 based on rule "}',
        "a name in JSON is read as a line of Kafka's",
    ),
    Found("audit-logs", b'{"log":"a","b":' + b"[" * 1500, "deep JSON is a RecursionError"),
    Found("audited-names", "é".encode() * 8_000 + b"\x1b", "one character makes a name slow"),
    Found(
        "hostile-node",
        bytes.fromhex("00000010 00000000 0023 00000001 0012 0030 8000"),
        "a node that knows negative versions is an assertion",
    ),
    Found(
        "plans",
        b'{"format":"authorizerd-acl-plan","version":1,"a\xc2\x85":1}',
        "a terminal obeys a name",
    ),
    Found("log-properties", b"version=\x1b[31m", "a terminal obeys a damaged file"),
    Found(
        "log-properties", b"a=b\n" + b"version=" + b"x" * 16_000, "an error of 16,000 characters"
    ),
    Found(
        "log-properties",
        b'{"data_version":0,"leaderId":%b}' % (b"2" * 3_000),
        "an error shows a number of 3,000 digits",
    ),
    Found("log-names", b"00000000000000000000\n", "a file's name begins a line of its own"),
    Found("log-names", b"\x7f.checkpoint", "a terminal obeys a file's name"),
    Found("log-files", b"\0version=\x02", "a terminal obeys a damaged file"),
)


def inputs_of(target: str) -> list[bytes]:
    """Return the inputs for a target."""
    return [each.data for each in CORPUS if each.target == target]
