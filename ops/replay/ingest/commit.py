"""The commits of an events table: the live runs, what they were read from, and the totals.

A table is a directory:

    events/run=RUN/day=YYYY-MM-DD/*.parquet   the events that a run added
    set_aside/run=RUN/*.parquet               the lines that it set aside
    tuples/run=RUN/*.parquet                  the tuples of all events, as of that run
    commits/00000001.json, …                  each describes the whole table
    ingest.json                               the totals of the newest commit

**Invariant:** the newest commit alone says what the table contains. A run that it does not name is
not part of the table. Runs and commits are never changed, only removed once no commit needs them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from authorizerd.replay.ingest.report import Ingested, decode_ingested

SCHEMA_VERSION: Final = 1
"""The version of this layout. Version 0 had ``events/day=…``, ``tuples``, ``set_aside`` and
``ingest.json`` of a single run, and no commits."""
UNVERSIONED_RUN: Final = "v0"
"""The id of the run that a table of version 0 contains."""

_NAME: Final = re.compile(r"([0-9]{8})\.json")


class TableError(Exception):
    """A directory that is not a readable table; the text names it."""


class NoTableError(TableError):
    """A directory without a commit, and without the output of version 0."""


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was listed when a run read it."""

    uri: str
    bytes: int
    modified_ms: int


Digest = tuple[int, int, int, int]
"""The sums of the halves of the rows' hashes, and of the hashes of their beginnings."""
NO_ROWS: Final[Digest] = (0, 0, 0, 0)


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one file: its events and its lines set aside, without blank lines.

    Args:
        file: the ``file`` of the rows.
        rows: the number of rows.
        digest: sums of the rows' hashes, keyed with the table's ``salt``; the order does not count.
        first: the hash of the first event's beginning; None without events.
        last: the hash of the last row.
        ends_unreadable: True if the last row was set aside.
        blank_lines: the number of blank lines of the file.
        run: the run that contains the rows after the first ``skipped_rows``.
        skipped_rows: the number of first rows that an earlier run contains.
        skipped_digest: their digest.
    """

    file: str
    rows: int
    digest: Digest
    first: int | None
    last: int
    ends_unreadable: bool
    run: str
    blank_lines: int = 0
    skipped_rows: int = 0
    skipped_digest: Digest = NO_ROWS


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A live run: its id, the days of its events (YYYY-MM-DD, in UTC), and its own figures.

    The figure ``tuples`` is that of the whole table, as of the run.
    """

    id: str
    days: tuple[str, ...]
    ingested: Ingested

    @property
    def events_glob(self) -> str:
        """Return the event files of the run, below the table's directory."""
        run = "" if self.id == UNVERSIONED_RUN else f"run={self.id}/"
        return f"events/{run}day=*/*.parquet"

    def may_contain(self, first_day: str) -> bool:
        """Return True if the run may have events of ``first_day`` (YYYY-MM-DD) or later."""
        if not self.ingested.events:
            return False
        return not self.days or max(self.days) >= first_day  # version 0 had no list of days


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """The whole content of a table.

    Args:
        number: 1 for the first commit; 0 for a table of version 0, which has none.
        salt: the key of the hashes in ``contents``.
        runs: the live runs, oldest first.
        tuples_run: the run whose ``tuples`` are those of all live runs; None without events.
        inputs: the files that were read.
        contents: what was read in them.
        offsets: the next offset to read, by partition, of each topic that was read.
        ingested: the totals.
    """

    schema_version: int = SCHEMA_VERSION
    number: int
    salt: int
    runs: tuple[Run, ...]
    tuples_run: str | None
    inputs: tuple[Input, ...] = ()
    contents: tuple[Content, ...] = ()
    offsets: dict[str, dict[int, int]] = {}
    ingested: Ingested

    @property
    def events_globs(self) -> tuple[str, ...]:
        """Return the event files of all live runs, below the table's directory."""
        return tuple(run.events_glob for run in self.runs if run.ingested.events)

    @property
    def tuples_glob(self) -> str | None:
        """Return the files of distinct tuples, below the table's directory."""
        if self.tuples_run is None:
            return None
        run = "" if self.tuples_run == UNVERSIONED_RUN else f"run={self.tuples_run}/"
        return f"tuples/{run}*.parquet"


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Commit)


class _Version(msgspec.Struct):
    schema_version: int


def encode_commit(commit: Commit) -> bytes:
    """Return the content of a commit's file."""
    return _encoder.encode(commit)


def decode_commit(data: bytes) -> Commit:
    """Return the commit in a file.

    Raises:
        msgspec.DecodeError: ``data`` is not a commit.
        TableError: a newer version wrote it.
    """
    version = msgspec.json.decode(data, type=_Version).schema_version
    if version > SCHEMA_VERSION:
        raise TableError(
            f"expected schema version {SCHEMA_VERSION} or lower, found {version}: "
            "use a newer authorizerd"
        )
    return _decoder.decode(data)


def carry_forward(ingest_json: str) -> Commit:
    """Return the content of a table of version 0.

    Raises:
        msgspec.DecodeError: the text is not an ``ingest.json``.
        TableError: the ingest was not accepted.
    """
    ingested = decode_ingested(ingest_json)
    if not ingested.accepted:
        raise TableError(
            f"this ingest was not accepted: it set aside {ingested.set_aside} of "
            f"{ingested.lines} lines. Fix the causes, or ingest with a higher --max-bad-ratio"
        )
    run = Run(id=UNVERSIONED_RUN, days=(), ingested=ingested)
    tuples_run = UNVERSIONED_RUN if ingested.events else None
    return Commit(number=0, salt=0, runs=(run,), tuples_run=tuples_run, ingested=ingested)


def read_newest_commit(
    table: str, numbers: Sequence[int], read_text: Callable[[str], str]
) -> Commit:
    """Return the newest commit of ``table``, or the content of a table of version 0.

    Args:
        numbers: those of its commits, newest first.
        read_text: reads a file of the table, or raises FileNotFoundError.

    Raises:
        NoTableError: there is neither a commit nor an ``ingest.json``.
        TableError: the newest commit cannot be read.
    """
    name = f"commits/{name_commit(numbers[0])}" if numbers else "ingest.json"
    place = f"{table}/{name}"
    try:
        text = read_text(place)
        return decode_commit(text.encode()) if numbers else carry_forward(text)
    except FileNotFoundError as error:
        if numbers:
            raise TableError(f"{place} does not exist any more: try again") from error
        raise NoTableError(
            f"{table}: expected the output of ingest: {place} does not exist"
        ) from error
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise TableError(
            f"{place}: {error}: restore the file, or run ingest with --overwrite"
        ) from error
    except OSError as error:
        raise TableError(f"{place}: {error.strerror or error}") from error
    except TableError as error:
        raise TableError(f"{place}: {error}") from error


def check_complete(place: str, noun: str, *, expected: int, found: int | str) -> None:
    """Reject a part of a table that has other rows than the commit says.

    Args:
        place: its path, or a glob of its files.
        noun: what its rows are.
        found: the number of its rows, or what was found instead.

    Raises:
        TableError: the numbers differ.
    """
    if found != expected:
        raise TableError(
            f"{place}: expected {expected} {noun}, found {found}: restore the missing files, or "
            "run ingest with --overwrite"
        )


def name_commit(number: int) -> str:
    """Return the name of a commit's file."""
    return f"{number:08d}.json"


def find_numbers(names: Iterable[str]) -> list[int]:
    """Return the numbers of the commits among names of files, newest first."""
    found = (_NAME.fullmatch(name) for name in names)
    return sorted((int(match[1]) for match in found if match), reverse=True)
