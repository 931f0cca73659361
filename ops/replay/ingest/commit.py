"""The commits of an events table: the live runs, what they were read from, and the totals.

A table is a directory:

    events/run=RUN/day=YYYY-MM-DD/*.parquet   the events that a run added
    set_aside/run=RUN/*.parquet               the lines that it set aside
    tuples/run=RUN/*.parquet                  the tuples of all events, as of that run
    commits/00000001.json, …                  each describes the whole table
    ingest.json                               the totals of the newest commit

**Invariant:** the newest commit alone says what the table contains. A run that it does not list is
not part of the table. Runs and commits are never changed, only removed once no commit needs them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import msgspec

from authorizerd.acl.text.decoding_errors import DECODING_ERRORS, describe_decoding_error
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.plain_files import HalfWrittenError, LocalFiles, Storage

SCHEMA_VERSION: Final = 2
"""The version of this layout. Tables of version 1 can be read, but not added to: their rows have no
hashes."""
PARTS: Final = ("events", "set_aside", "tuples")
"""The directories of a table that contain a subdirectory for each run."""

_NAME: Final = re.compile(r"([0-9]{8})\.json")


class TableError(Exception):
    """A directory that is not a readable table; the text names it."""


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was listed when a run read it."""

    uri: str
    bytes: int
    modified_ms: int


Digest = tuple[int, int]
"""The sums of the halves of the rows' hashes (``parse.hashes``)."""
NO_ROWS: Final[Digest] = (0, 0)


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one file: its events and its lines set aside, without blank lines.

    Args:
        file: the ``file`` of the rows.
        rows: the number of rows.
        digest: sums of the rows' hashes, keyed with the table's ``salt``; the order does not count.
        first: the hash of the first event's beginning; None without events.
        last: the hash of the last row.
        last_head: the hash of its beginning; None if it was set aside.
        run: the run that contains the rows after the first ``skipped_rows``.
        skipped_rows: the number of leading rows that an earlier run contains.
        skipped_digest: their digest.
    """

    file: str
    rows: int
    digest: Digest
    first: int | None
    last: int
    last_head: int | None
    run: str
    skipped_rows: int = 0
    skipped_digest: Digest = NO_ROWS


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A live run: its id, the days of its events (YYYY-MM-DD, in UTC), and its own figures.

    Its count of ``tuples`` is that of the whole table, as of the run. Events before ``first_day``
    have expired: files may still have them, but they are not part of the run.
    """

    id: str
    days: tuple[str, ...]
    ingested: Ingested
    first_day: str = ""

    @property
    def events_glob(self) -> str:
        """Return the event files of the run, below the table's directory."""
        return f"events/run={self.id}/day=*/*.parquet"

    def may_contain(self, first_day: str) -> bool:
        """Return True if the run has events of ``first_day`` (YYYY-MM-DD) or later."""
        return bool(self.days) and max(self.days) >= first_day


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """The whole content of a table.

    Args:
        number: 1 for the first commit; 0 for a table that has no commit yet.
        salt: the key of the hashes in ``contents``.
        runs: the live runs, oldest first.
        tuples_run: the run whose ``tuples`` cover all live runs; None without events.
        inputs: the files that were read.
        contents: what was read from them.
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
    def tuples_glob(self) -> str | None:
        """Return the files of distinct tuples, below the table's directory."""
        return None if self.tuples_run is None else f"tuples/run={self.tuples_run}/*.parquet"


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Commit)


class _Version(msgspec.Struct):
    schema_version: Annotated[int, msgspec.Meta(lt=2**31)]  # so that an error can quote it


def encode_commit(commit: Commit) -> bytes:
    """Return the content of a commit's file."""
    return _encoder.encode(commit)


def decode_commit(data: bytes) -> Commit:
    """Return the commit in a file.

    Raises:
        ValueError, RecursionError: ``data`` is not a commit (``DECODING_ERRORS``).
        TableError: a newer version wrote it.
    """
    version = msgspec.json.decode(data, type=_Version).schema_version
    if version > SCHEMA_VERSION:
        raise TableError(
            f"expected schema version {SCHEMA_VERSION} or lower, found {version}: "
            "use a newer authorizerd"
        )
    if version < SCHEMA_VERSION:
        # Its contents have hashes of another kind.
        data = msgspec.json.encode(msgspec.json.decode(data, type=dict) | {"contents": []})
    return _decoder.decode(data)


def read_newest(table: Path) -> Commit:
    """Return the newest commit of a table on this machine, without Spark.

    Raises:
        TableError: ``table`` is not a table, or its newest commit cannot be read.
    """
    return read_newest_commit(LocalFiles(), str(table))


def list_commits(storage: Storage, table: str) -> list[int]:
    """Return the numbers of the commits of a table, newest first, half-written ones included.

    Raises:
        TableError: the directory cannot be read.
    """
    try:
        return find_numbers(storage.names(f"{table}/commits"))
    except OSError as error:
        raise TableError(f"{table}/commits: {error.strerror or error}") from error


def read_newest_commit(storage: Storage, table: str) -> Commit:
    """Return the newest commit of ``table``.

    Raises:
        TableError: there is no commit, or the newest one cannot be read.
    """
    commit = find_newest_commit(storage, table)
    if commit is None:
        raise TableError(f"{table}: expected the output of ingest: {table}/commits has no commit")
    return commit


def find_newest_commit(storage: Storage, table: str) -> Commit | None:
    """Return the newest commit of ``table``, or None if there is none.

    A commit that Spark was stopped in writing counts as missing, which standard error says.

    Raises:
        TableError: the newest commit cannot be read.
    """
    for number in list_commits(storage, table):
        place = f"{table}/commits/{name_commit(number)}"
        try:
            return decode_commit(storage.read(place))
        except HalfWrittenError as error:
            print(f"authorizerd replay: passed over: {error}", file=sys.stderr)
        except FileNotFoundError as error:
            raise TableError(f"{place} no longer exists: try again") from error
        except DECODING_ERRORS as error:
            raise TableError(
                f"{place}: {describe_decoding_error(error)}: restore the file, or run ingest with "
                "--overwrite"
            ) from error
        except (OSError, TableError) as error:
            raise TableError(f"{place}: {getattr(error, 'strerror', None) or error}") from error
    return None


def check_complete(place: str, noun: str, *, expected: int, found: int | str) -> None:
    """Reject a part of a table whose rows do not match its commit.

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
    """Return the commit numbers found in ``names``, newest first."""
    found = (_NAME.fullmatch(name) for name in names)
    return sorted((int(match[1]) for match in found if match), reverse=True)
