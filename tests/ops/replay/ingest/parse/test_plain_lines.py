from __future__ import annotations

import lzma
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.replay.ingest.parse.beginnings import ONE_TIME
from authorizerd.replay.ingest.parse.event import Event
from authorizerd.replay.ingest.parse.line import parse_line
from authorizerd.replay.ingest.parse.plain_lines import are_plain, read_plain
from tests.ops.replay.ingest.parse.hostile_lines import CALLERS, PIECES
from tests.support.sizes import size

TAIL = " (kafka.authorizer.logger)"
RULE = "MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=t, operation=READ])"
# Mostly parts of plain lines, and some that make a line not plain.
words = st.sampled_from(("a", "User:x", "unknown", "a:b", "10.0.0.1", "is", "=", "[t]", "(k)", ","))
pieces = st.sampled_from(PIECES)
fields = words | words | words | st.lists(pieces, max_size=3).map("".join) | st.text(max_size=3)
types = st.sampled_from(("Topic", "TransactionalId", "TOPIC", "Topic:", "T9"))
patterns = st.sampled_from(("LITERAL", "PREFIXED", "ANY", "a"))
counts = st.sampled_from(("1", "007", "999999999", "1000000000", "", "x"))
rules = st.sampled_from(
    ("", f" based on rule {RULE}", " based on rule DefaultDeny", " based on rule ", " x")
) | st.lists(pieces, max_size=4).map(lambda some: " based on rule " + "".join(some))
tails = st.sampled_from(
    (
        *(TAIL, TAIL, TAIL, f"{TAIL} [thread-7]", "", f"{TAIL}{TAIL}", " (k)"),
        *(
            *CALLERS,
            f"{CALLERS[0]} [sampleRate=0.01]",
            f"{CALLERS[1]} [t]",
            f"{TAIL} [knownBy=999]",
        ),
    )
)
lines = st.builds(
    "{} Principal = {} is {} {} = {} from host = {} on resource = {}:{}:{} for request = {}"
    " with resourceRefCount = {}{}{}".format,
    st.sampled_from(("INFO", "DEBUG", "TRACE", "NOTE")), fields,
    st.sampled_from(("Allowed", "Denied", "Unknown")), st.sampled_from(("operation", "Operation")),
    st.sampled_from(("READ", "Describe", "DescribeConfigs", "READ 1")), fields, types, patterns,
    fields, fields, counts, rules, tails,
)  # fmt: skip


def plain(some: list[bytes]) -> list[bool]:
    found: list[bool] = are_plain(pyarrow.array(some, pyarrow.binary())).to_pylist()
    return found


def columns_of(some: list[bytes]) -> list[dict[str, Any]]:
    columns = read_plain(pyarrow.array(some, pyarrow.binary()))
    rows: list[dict[str, Any]] = pyarrow.table(columns).to_pylist()
    return rows


def parsed(line: bytes) -> dict[str, Any]:
    event = parse_line(line, UTC)
    assert isinstance(event, Event)
    values: dict[str, Any] = msgspec.structs.asdict(event)
    del values["at_ms"]
    return values


@settings(max_examples=size(20, 400))
@given(st.lists(lines, min_size=1, max_size=30))
def test_plain_line_equals_what_the_parser_reads(some: list[str]) -> None:
    texts = [ONE_TIME + line.encode("utf-8", "surrogatepass") for line in some]
    chosen = [line for line, is_plain in zip(texts, plain(texts), strict=True) if is_plain]
    assert columns_of(chosen) == list(map(parsed, chosen))


def denial(ending: str, names: tuple[str, str, str] = ("User:a", "t", "Fetch")) -> bytes:
    """Return a line with ``names``: its principal, resource name and request."""
    principal, resource, request = names
    return (
        ONE_TIME
        + (
            f"INFO Principal = {principal} is Denied operation = READ from host = h on resource = "
            f"Topic:LITERAL:{resource} for request = {request} with resourceRefCount = 1{ending}"
        ).encode()
    )


@pytest.mark.parametrize(("ending", "rule"), [
    (f" based on rule A{TAIL}", "A"), (f" based on rule a.b:C{TAIL}", "a.b:C"),
    *(
        (f" based on rule {rule}{ending}", rule)
        for rule in (f"A(acl=b,{TAIL}, c])", "A(acl=b, c=d))")
        for ending in (TAIL, f"{TAIL} [t]")
    ),
])  # fmt: skip
def test_rule_ends_before_the_loggers_name(ending: str, rule: str) -> None:
    assert plain([denial(ending)]) == [True]
    assert columns_of([denial(ending)])[0]["rule"] == parsed(denial(ending))["rule"] == rule


@pytest.mark.parametrize("ending", [
    f"000000000{TAIL}",  # a count of ten digits
    f" based on rule A is Allowed b{TAIL}",
    f" based on rule A(acl=a is Allowed b]){TAIL}",
    f" based on rule A b{TAIL}",
    f" based on rule A, b{TAIL}",
    f" based on rule A(acl=b]),{TAIL}",
    f" based on rule A(acl=b]){TAIL}{TAIL}",
    f" based on rule A(acl=b,  c]){TAIL}",
    f" based on rule A{TAIL} [a]b]",
    f" based on rule A{TAIL} [[b]",
    f" based on rule A(acl=b]), (authorizer){TAIL[:-1]}",
    " based on rule A",
    f" based on rule {TAIL}",
])  # fmt: skip
def test_ambiguous_ending_is_not_plain(ending: str) -> None:
    assert plain([denial(ending)]) == [False]


@pytest.mark.parametrize("ending", [f" based on rule {RULE}", " based on rule SuperUser", ""])
@pytest.mark.parametrize("thread", ["", " [data-plane-kafka-request-handler-7]"])
def test_lines_of_brokers_are_plain(ending: str, thread: str) -> None:
    line = ONE_TIME + (
        b"INFO Principal = User:a is Denied operation = READ from host = unknown on resource = "
        b"TransactionalId:LITERAL:a:b for request = Fetch with resourceRefCount = 3"
    )
    line += f"{ending}{TAIL}{thread}".encode()
    assert plain([line]) == [True]
    (columns,) = columns_of([line])
    assert columns == parsed(line)
    assert (columns["host"], columns["resource_type"]) == (None, "TRANSACTIONAL_ID")


def test_all_lines_of_a_real_broker_are_plain(real_log_dir: Path) -> None:
    text = lzma.decompress((real_log_dir / "kafka-authorizer.log.xz").read_bytes())
    assert all(plain([ONE_TIME + line[26:] for line in text.splitlines()]))


@pytest.mark.parametrize("name", [
    "a is Allowed operation = READ from host = b on resource = Topic:LITERAL:c",
    "a for request = Fetch with resourceRefCount = 1", "a, is Allowed operation = READ", "ü",
    "a\tb", "",
])  # fmt: skip
def test_name_with_a_blank_is_not_plain(name: str) -> None:
    for names in ((name, "t", "Fetch"), ("User:a", name, "Fetch"), ("User:a", "t", name)):
        assert plain([denial(f" based on rule DefaultDeny{TAIL}", names)]) == [False]
