"""Inputs that once failed. Each run reads them first, and mutates them."""

from typing import Final, NamedTuple

from authorizerd.protocol.framing import frame


class Found(NamedTuple):
    """An input, as small as possible, and what went wrong."""

    target: str
    data: bytes
    fault: str


def _watched(*events: bytes) -> bytes:
    """Return the answers to a client that lists no ACLs, and then watches them."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    listing = (b'{"offset":1}\n{"count":0}\n',)
    return b"\xff\xfe".join(
        head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
        for parts in (listing, events)
    )


_STREAM_HELLO: Final = b"\x00\x00\x00\x0a\x93\xa5hello\x01\xc0"

CORPUS: Final = (
    Found("stream", _STREAM_HELLO + b"\x00\x00\x00\x08\x92\x01\x91\x95\xa2\xff\xff\xc0",
          "an error shows a text of Python"),
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
    Found("hostile-node", bytes.fromhex("00000010 00000000 0023 00000001 0012 0030 8000"),
          "a node that knows negative versions is an assertion"),
    Found("plans", b'{"format":"authorizerd-acl-plan","version":1,"a\xc2\x85":1}',
          "a terminal obeys a name"),
    Found("log-properties", b"version=\x1b[31m", "a terminal obeys a damaged file"),
    Found(
        "log-properties", b"a=b\n" + b"version=" + b"x" * 16_000, "an error of 16,000 characters"
    ),
    Found("log-properties", b'{"data_version":0,"leaderId":%b}' % (b"2" * 3_000),
          "an error shows a number of 3,000 digits"),
    Found("log-names", b"00000000000000000000\n", "a file's name begins a line of its own"),
    Found("log-names", b"\x7f.checkpoint", "a terminal obeys a file's name"),
    Found("log-files", b"\0version=\x02", "a terminal obeys a damaged file"),
    Found(
        "certificates",
        bytes.fromhex(
            "306b305fa00302011d020101300506032b65703000301e170d3030303130313030303030305a170d3030303130"
            "313030303030305a3000302a300506032b657003210000000000000000000000000000000000000000000000000"
            "00000000000000000300506032b6570030100"
        ),
        "the version of a certificate is an error that nobody expects",
    ),
    Found("client-watch",
          _watched(
              b'id: 2\nevent: acls\ndata: {"offset":2,"more":false,"changes":[]}\n\n',
              b":%b\nid: x\n\n" % (b" " * 300),
          ),
          "a watch goes on after changes that a fault has hidden"),
    Found(
        "client-watch", _watched(b"id: %b\n\n" % (b"1" * 5_000)), "a long offset is a ValueError"
    ),
    Found("sasl-sequence", b"choose 1PLAIN\xff\xfe\0s3cr3t\0",
          "the name of a user is taken for a secret"),
    Found("worker-feed", frame(b"\x93\x08\1\xa1\xff"), "a text that is not UTF-8 is another error"),
    Found("locators", b"kafka:///", "a cluster without an address"),
    Found("replay-files", b'{"schema_version":%b}' % (b"1" * 3_000),
          "an error shows a number of 3,000 digits"),
)  # fmt: skip


def inputs_of(target: str) -> list[bytes]:
    return [each.data for each in CORPUS if each.target == target]
