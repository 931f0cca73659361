"""Small audit logs, and what a table of them contains."""

import random
import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from authorizerd.replay.ingest.commit import decode_commit, read_newest

COMMITS_KEPT = 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEGIN = datetime(2026, 11, 20, 22, tzinfo=UTC)
_RUN = re.compile(r"(events|set_aside|tuples)/run=([^/]+)/.*")
_KINDS = (("READ", "Topic", "Fetch"), ("WRITE", "Topic", "Produce"), ("READ", "Group", "JoinGroup"))


class Line(NamedTuple):
    """A line of a log; ``event`` is None if it is blank or set aside."""

    text: str
    event: tuple[Any, ...] | None


class Content(NamedTuple):
    """What a table contains: events with their numbers, and its totals.

    ``of_tuples`` is the number of tuples, and that of the events that they cover.
    """

    events: Counter[tuple[Any, ...]]
    lines: int
    blank_lines: int
    set_aside: int
    of_tuples: tuple[int, int]


def make_lines(rng: random.Random, hour: int, count: int, *, bad: int = 0) -> list[Line]:
    """Return lines of an hour, of which ``bad`` are set aside and one is blank."""
    lines = [_make_line(rng, _BEGIN + timedelta(hours=hour, seconds=at)) for at in range(count)]
    for place in rng.sample(range(1, count), bad):
        lines.insert(place, Line(f"no audit line {hour} {place}", None))
    if bad:
        lines.insert(1, Line("", None))
    return lines


def _make_line(rng: random.Random, at: datetime) -> Line:
    operation, kind, request = rng.choice(_KINDS)
    principal, name = f"User:svc-{rng.randrange(4)}", f"orders-{rng.randrange(3)}"
    host, is_allowed = f"10.0.0.{rng.randrange(3)}", rng.random() < 0.8
    rule = "DefaultDeny"
    if is_allowed:
        rule = (
            f"MatchingAcl(acl=StandardAcl[resourceType={kind.upper()}, resourceName={name}, "
            f"patternType=LITERAL, principal={principal}, host=*, operation=ALL, "
            "permissionType=ALLOW])"
        )
    answer = "Allowed" if is_allowed else "Denied"
    text = (
        f"[{at:%Y-%m-%d %H:%M:%S},000] {'DEBUG' if is_allowed else 'INFO'} Principal = {principal}"
        f" is {answer} operation = {operation} from host = {host} on resource = "
        f"{kind}:LITERAL:{name} for request = {request} with resourceRefCount = 1 based on rule "
        f"{rule} (kafka.authorizer.logger)"
    )
    return Line(text, (at, is_allowed, principal, host, operation, kind.upper(), name))


def write_log(path: Path, lines: Iterable[Line]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line.text}\n" for line in lines))


def expect_content(lines: Iterable[Line]) -> Content:
    """Return the content of a table of these lines."""
    lines = list(lines)
    events = Counter(line.event for line in lines if line.event is not None)
    blank = sum(not line.text for line in lines)
    tuples = {event[2:] for event in events}
    return Content(
        events,
        lines=len(lines),
        blank_lines=blank,
        set_aside=len(lines) - blank - events.total(),
        of_tuples=(len(tuples), events.total()),
    )


def read_content(table: Path) -> Content:
    """Return the content of a table on this machine, as its newest commit describes it."""
    commit = read_newest(table)
    events: Counter[tuple[Any, ...]] = Counter()
    files = [f"{table}/{run.events_glob}" for run in commit.runs if run.days]
    if files:
        columns = "allowed, principal, host, operation, resource_type, resource_name"
        rows = _query(
            f'SELECT epoch_us("at"), {columns} '
            f"FROM read_parquet({files}, hive_partitioning = false)"
        )
        events.update((_EPOCH + timedelta(microseconds=row[0]), *row[1:]) for row in rows)
    tuples: tuple[int, int] = 0, 0
    if commit.tuples_glob is not None:
        (tuples,) = _query(
            "SELECT count(*), sum(allowed_events + denied_events)::BIGINT "
            f"FROM '{table}/{commit.tuples_glob}'"
        )
    totals = commit.ingested
    assert (totals.events, totals.tuples) == (events.total(), tuples[0])
    return Content(events, totals.lines, totals.blank_lines, totals.set_aside, tuples)


def _query(text: str) -> list[Any]:
    with duckdb.connect() as connection:
        return connection.execute(text).fetchall()


def find_left(table: Path) -> list[str]:
    """Return the files of a table on this machine that no commit needs."""
    names = sorted(path.name for path in (table / "commits").glob("*.json"))
    assert len(names) <= COMMITS_KEPT
    commits = [decode_commit((table / "commits" / name).read_bytes()) for name in names]
    runs: set[str | None] = {run.id for commit in commits for run in commit.runs}
    needed = {"events": runs, "set_aside": runs, "tuples": {each.tuples_run for each in commits}}
    left = []
    for path in sorted(table.rglob("*")):
        place = str(path.relative_to(table))
        of_run = _RUN.fullmatch(place)
        is_needed = place in ("ingest.json", *(f"commits/{name}" for name in names))
        if of_run is not None:
            is_needed = of_run[2] in needed[of_run[1]] and "_temporary" not in place
        if not path.is_dir() and not is_needed and not path.name.endswith(".crc"):
            left.append(place)
    return left
