"""What pages of the console count and list: denials, rates and tables."""

import os
from pathlib import Path

import pytest

from authorizerd.acl.audit.line import AuditLevel
from authorizerd.acl.decision import Decision, NamedRule
from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.actors.audit_log import AuditEvent
from authorizerd.daemon.audit.format import format_json, format_kafka
from authorizerd.daemon.audit.lines import LAST_BYTES_MAX
from authorizerd.daemon.console.denials import PRINCIPALS_MAX, count_denials, read_denials
from authorizerd.daemon.console.samples import SAMPLES_MAX, Samples
from authorizerd.daemon.console.tables import Table, make_table, read_view
from authorizerd.daemon.queries.tables import ROWS_PER_PAGE, TablePage, make_page
from authorizerd.protocol.decisions.acl_filters import QueryError

COLUMNS = {"name": "Name", "other": "Other"}
ROWS = [(f"{number:05}", str(number % 7)) for number in range(ROWS_PER_PAGE * 2 + 1)]


def table_of(**fields: str) -> Table:
    rows, total = make_page(ROWS, read_view(fields, COLUMNS))
    return make_table("/path", fields, COLUMNS, TablePage(rows=rows, total=total, offset=1))


def test_pages_link_to_each_other() -> None:
    first = table_of(x="ä")
    assert ([*first.rows], first.first, first.total) == (ROWS[:ROWS_PER_PAGE], 1, len(ROWS))
    assert (first.previous, first.next) == (None, "/path?x=%C3%A4&page=2")
    last = table_of(page="3")
    assert ([*last.rows], last.next) == (ROWS[-1:], None)
    assert last.previous == "/path?page=2"


def test_head_sorts_by_its_column_and_then_reverses_the_order() -> None:
    table = table_of(sort="other", page="2")
    assert [each.sorted for each in table.heads] == ["none", "ascending"]
    assert [each.link for each in table.heads] == [
        "/path?sort=name&order=ascending",
        "/path?sort=other&order=descending",
    ]
    assert [row[1] for row in table.rows] == sorted(row[1] for row in ROWS)[100:200]
    reverse = table_of(sort="other", order="descending")
    assert reverse.rows[0] == ("00195", "6")
    assert reverse.heads[1].link == "/path?sort=other&order=ascending"


@pytest.mark.parametrize(
    "fields",
    [
        {"sort": "x"},
        {"order": "up"},
        {"page": "0"},
        {"page": "-1"},
        {"page": "x"},
        {"page": "\u0661"},
        {"page": "9" * 5000},
    ],
)
def test_invalid_place_in_a_table_is_rejected(fields: dict[str, str]) -> None:
    with pytest.raises(QueryError):
        table_of(**fields)


def test_page_after_the_last_is_empty() -> None:
    table = table_of(page="9")
    assert ([*table.rows], table.next) == ([], None)


def test_first_rate_is_about_the_time_since_the_start() -> None:
    rates = Samples(100.0).measure(120.0, {"a": 40, "b": 0})
    assert (rates.seconds, rates.by_name) == (20.0, {"a": 2.0, "b": 0.0})


@pytest.mark.parametrize(
    ("times", "now", "seconds"),
    [
        ((2, 4, 6), 8, 8),  # the start is a sample as well
        ((2, 4, 6, 8, 10), 12, 10),
        ((20,), 25, 5),
        ((20,), 100, 80),
        ((20, 100), 102, 2),
        ((20, 20.5), 21.5, 1.5),  # the second one is too soon
    ],
)
def test_rate_is_of_the_last_seconds(times: tuple[float, ...], now: float, seconds: float) -> None:
    """The counter grows by 3 a second."""
    samples = Samples(0.0)
    for time in times:
        samples.measure(time, {"a": round(time * 3)})
    rates = samples.measure(now, {"a": round(now * 3)})
    assert rates.seconds == seconds
    assert rates.by_name["a"] == pytest.approx(3, rel=0.3)


def test_counter_that_was_reset_counts_as_none() -> None:
    samples = Samples(0.0)
    samples.measure(20.0, {"a": 100})
    assert samples.measure(25.0, {"a": 1}).by_name == {"a": 0.0}


def test_number_of_samples_is_bounded() -> None:
    samples = Samples(0.0)
    for second in range(2 * SAMPLES_MAX):
        samples.measure(float(second), {})
    assert len(samples._samples) == SAMPLES_MAX


def event(principal: str, name: str = "orders", *, allowed: bool = False) -> AuditEvent:
    question = Question(principal, "10.0.0.1", Operation.READ, ResourceType.TOPIC, name)
    decision = Decision(allowed, NamedRule("DefaultDeny"))
    return AuditEvent(1e9, AuditLevel.INFO, question, decision, "Fetch", 7)


def lines_of(*events: AuditEvent) -> list[bytes]:
    return [*map(format_kafka, events), *map(format_json, events)]


def test_denials_are_counted_in_both_formats() -> None:
    found = count_denials(
        lines_of(
            event("User:b"),
            event("User:a", "x"),
            event("User:a", "y"),
            event("User:c", allowed=True),
        )
    )
    assert [(each.principal, each.count) for each in found.principals] == [
        ("User:a", 4),
        ("User:b", 2),
    ]
    assert (found.count, found.unread, found.others) == (6, 0, 0)
    assert found.principals[0].last.resource_name == "y"
    assert found.since is not None


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"{}", b"text", b"\xff", b"[x] INFO Principal = a is Denied operation = READ"],
)
def test_other_lines_have_no_reading(line: bytes) -> None:
    found = count_denials([line])
    assert (found.count, found.unread) == (0, 1)


def test_only_principals_with_the_most_denials_are_listed() -> None:
    found = count_denials(
        [format_json(event(f"User:{number:03}")) for number in range(PRINCIPALS_MAX + 5)]
        + [format_json(event("User:024"))]
    )
    assert found.principals[0].principal == "User:024"
    assert (len(found.principals), found.others) == (PRINCIPALS_MAX, 5)


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    line = format_json(event("User:a")) + b"\n"
    file = tmp_path / "audit.log"
    file.write_bytes(line * 5)
    assert read_denials(file).count == 5
    file.write_bytes(line * 5 + line[:-5])  # the last line is being written
    assert read_denials(file).count == 5
    count = LAST_BYTES_MAX // len(line)
    file.write_bytes(line * (count + 100))
    found = read_denials(file)
    assert count - 1 <= found.count <= count
    assert found.unread == 0


def test_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="expected a file"):
        read_denials(tmp_path / "pipe")
