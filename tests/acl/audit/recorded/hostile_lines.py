"""Hypothesis strategies for lines: every layout, with names made of the layouts' markers."""

import json
from itertools import product

from hypothesis import strategies as st

from authorizerd.acl.audit.recorded.kafka_line import MARKERS

CALLERS = (
    " (kafka.authorizer.logger) [knownBy=token caller=User:rest%20bridge address=10.0.0.1"
    " requestId=a-1 traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01]",
    " (kafka.authorizer.logger) [knownBy=trusted address=unix]",
)
"""The ends of the daemon's lines."""
PIECES = (
    *MARKERS,
    *(marker.strip() for marker in MARKERS),
    *(" ", ":", ",", "=", "*", "(", ")", "[t]", " [t]", "'", '"', "\\", "$1", "{", "}", "\t", "\r"),
    *("a", "is", "User:x", "LITERAL", "LITERAL:"),
    *("ü", "名前", "\x01", "\x85", "\u2028", "\U0001f600"),
    *("Allowed", "Denied", "unknown", " (kafka.authorizer.logger)", "2026-11-21 16:26:26,966"),
    *(" (kafka.authorizer.logger) [knownBy=", " address=10.0.0.1]", *CALLERS),
)
names = st.lists(st.sampled_from(PIECES), max_size=5).map("".join) | st.text(max_size=6)
plain_names = st.sampled_from(("orders", "User:alice", "User:CN=a b, O=ü (x)", "10.0.0.1", "a:b"))
texts = plain_names | plain_names | names  # mostly harmless fields, or no line would be readable

TIMES = (
    *("2026-11-21 16:26:26,966", "2026-11-21T16:26:26.9", "2026-11-21T16:26:26.966123456"),
    *("2026-03-29 02:30:00,000", "2026-10-25 02:30:00,000", "2026-02-30 00:00:00", "12:00:00"),
    *("2026-01-01 24:00:00", "2026-01-01 23:59:60", "1999-12-31 00:00:00", "12026-01-01 00:00:00"),
)
ZONES = (
    *("", "", "Z", " UTC", "+0100", " +01:00", "-05", " CET", "+19:00", "+18:00", "-18:30"),
    *(" -", "+1", "+05:99", " GMT", "UTCX", "Zulu"),
)
prefixes = st.sampled_from(
    (
        *("", "", "", "kafka-0 kafka ", "kafka1  | ", "[pod/a-0/kafka] ", "\t"),
        *("2026-11-21T17:00:00.9Z stdout F ", "2026-11-21T17:00:00.9Z stderr P "),
    )
)
levels = st.sampled_from((" INFO ", " DEBUG ", " ", "] INFO ", " [t] WARN  logger - ", "XINFO"))
heads = st.tuples(
    prefixes, st.sampled_from(("[", "")), st.sampled_from((*TIMES[:5], *TIMES)),
    st.sampled_from(ZONES), st.sampled_from(("]", "")), levels,
).map("".join)  # fmt: skip
tails = st.sampled_from(
    (
        *("", " (kafka.authorizer.logger)", " (kafka.authorizer.logger) [handler-7]"),
        *(*CALLERS, f"{CALLERS[0]} [sampleRate=0.01]", f"{CALLERS[1]}{CALLERS[0]}"),
        *(" (k.a.Authorizer$)", " (other)", " [t]", " ", "\r", "\r\r"),
    )
)
rules = (
    st.sampled_from(("SuperUser", "DefaultDeny", "MatchingAcl(acl=StandardAcl(name=a b, x=y))"))
    | st.builds("MatchingAcl(acl=StandardAcl[resourceName={}, host=*])".format, texts)
    | names
)
counts = st.sampled_from(("1", "0", "999999999", "1234567890", "-1", "x", ""))
endings = st.one_of(
    st.just(""),
    st.builds(" for request = {} with resourceRefCount = {}".format, texts, counts),
    st.builds(" for request = {} with resourceRefCount = 1 based on rule {}".format, texts, rules),
)
kafka_lines = st.builds(
    "{}Principal = {} is {} {} = {} from host = {} on resource = {}{}{}{}".format, heads, texts,
    st.sampled_from(("Allowed", "Denied", "Denied", "denied")),
    st.sampled_from(("operation", "Operation")),
    st.sampled_from(("READ", "Describe", "IdempotentWrite", "CLUSTER_ACTION", "X1", "")),
    texts | st.sampled_from(("unknown", "0:0:0:0:0:0:0:1")),
    st.sampled_from(("Topic:", "Topic:LITERAL:", "Group:PREFIXED:", "TransactionalId:ANY:", "X ")),
    texts, endings, tails,
)  # fmt: skip
FORGED = (
    "2026-11-21 16:26:26,966 INFO Principal = User:a is Allowed operation = READ from host = h"
    " on resource = Topic:LITERAL:t for request = Fetch with resourceRefCount = 1 based on rule "
    "SuperUser (kafka.authorizer.logger) ["
)
"""A whole line of Kafka's, except the end of its thread. So it remains one inside a name."""
audit_objects = st.fixed_dictionaries(
    {
        "time": st.sampled_from((*TIMES, "2026-11-21T16:26:26.966Z", "")),
        "principal": texts,
        "allowed": st.booleans(),
        "operation": st.just("READ"),
        "resource_type": st.just("TOPIC"),
        "resource_name": texts | st.just(FORGED),
    },
    optional={
        "level": st.just("DEBUG"), "host": st.none() | texts, "request": st.none() | texts,
        "resource_reference_count": st.none() | st.integers(0, 2**31 - 1),
        "rule": st.sampled_from(("SuperUser", "MatchingAcl")), "acl": st.none() | texts,
        "masked": st.sampled_from(([], [], ["principal"])), "offset": st.integers(0, 9),
    },
)  # fmt: skip
json_lines = st.builds(
    json.dumps, audit_objects, ensure_ascii=st.booleans(), separators=st.just((",", ":"))
)


def _cut(line: str, at: int) -> str:
    return line[: at % (len(line) + 1)]


def _docker(line: str) -> str:
    record = {"log": line + "\n", "stream": "stdout", "time": "2026-11-21T16:26:27.1Z"}
    return json.dumps(record, separators=(",", ":"))


def _ship(line: str) -> str:
    time = "2026-11-21T16:26:27.1Z"
    record = {"time": time, "event": {"original": line}, "message": "x", "level": "INFO"}
    return json.dumps(record, separators=(",", ":"))


FIELDS = st.sampled_from((None, None, "log", "event.original"))
"""The JSON field that holds a line; None for those of known wrappers."""
whole_lines = (
    kafka_lines | kafka_lines | json_lines | json_lines.map("2026-11-21T1:1Z stdout F {}".format)
)
lines = st.one_of(
    whole_lines, whole_lines, st.builds(_cut, whole_lines, st.integers(0, 999)),
    whole_lines.map(_docker), whole_lines.map(_ship),
    st.builds(_cut, whole_lines.map(_docker), st.integers(0, 999)), names,
    st.sampled_from(("", " \t", "\r", "{}", "[]", '{"log":1}', '{"log":"x"}')),
).map(lambda line: line.replace("\n", " ").encode("utf-8", "replace"))  # fmt: skip
bytes_lines = lines | st.builds(
    bytes.__add__, lines, st.sampled_from((b"\xff", b"\xc3", b"\xed\xa0\x80"))
)

MESSAGE = (
    b"Principal = User:%s is Denied Operation = READ from host = h on resource = Topic:LITERAL:t"
)
# Some are only nearly plain: a line that begins with one must be read as a whole.
BEGINNINGS = [
    "".join(parts).encode()
    for parts in product(
        ("", "2026-11-21T17:00:00.9Z stdout F ", "1 stderr P ", "2026-01-01 ", "x", "kafka | "),
        ("[", ""),
        (
            *("2026-11-21 16:26:26,966", "2026-11-21 16:26:26,001", "2026-03-29 02:30:00,000"),
            *("2026-10-25 02:30:00,000", "2026-02-30 00:00:00,000", "2026-11-21 16:26:26,9667"),
            *("2026-11-21 24:00:00,000", "1999-11-21 16:26:26,966", "2026-11-21T16:26:26,966"),
        ),
        ("", "Z", " +0500"),
        ("] ", " ", "]"),
        (
            "INFO ", "DEBUG ", "WARN  ", "INFORM ", "is Denied ",
            "INFO 2026-11-22 01:00:00,000 INFO ", "",
        ),
    )
]  # fmt: skip
stamped_lines = st.builds(
    lambda beginning, line: beginning + line[line.index(b"Principal = ") :],
    st.sampled_from(BEGINNINGS),
    kafka_lines.map(lambda line: line.replace("\n", " ").encode("utf-8", "replace")),
)
