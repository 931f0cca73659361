"""Describe the events and the tuples of a table as Delta tables, which other engines read.

    events/_delta_log/*   the event files of the live runs, by run and day
    tuples/_delta_log/*   the files of the tuples

No data is copied. **Invariant:** commits alone say what the table contains. A log follows them: it
never goes back to an earlier commit, and wherever an update was stopped, the next one brings the
log up to date.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow
import pyarrow.parquet as parquet

from authorizerd.acl.text.decoding_errors import DECODING_ERRORS
from authorizerd.replay.ingest.commit import Commit, TableError, read_newest_commit
from authorizerd.replay.ingest.schemas import EVENTS_SCHEMA, TUPLES_SCHEMA
from authorizerd.replay.plain_files import Storage

CHECKPOINT_VERSIONS: Final = 10
"""The number of versions after which a checkpoint follows, so that readers read few files."""
VERSIONS_KEPT: Final = 100
"""Older versions are removed, since readers begin at a checkpoint."""

Action = dict[str, dict[str, Any]]

_COLUMNS: Final = {"events": f"{EVENTS_SCHEMA}, run string, day date", "tuples": TUPLES_SCHEMA}
_PARTITIONED_BY: Final = {"events": ["run", "day"], "tuples": []}
_TYPES: Final = {"int": "integer"}  # the others have Spark's names
# A feature for writers that no engine knows, so that none writes, compacts or cleans up here.
_PROTOCOL: Final = {
    "minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["authorizerd"],
}  # fmt: skip
_VERSION: Final = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT: Final = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
_TEXT: Final = pyarrow.string()
_TEXTS: Final = pyarrow.map_(_TEXT, _TEXT)
_CHECKPOINT_SCHEMA: Final = pyarrow.schema({
    "protocol": pyarrow.struct({
        "minReaderVersion": pyarrow.int32(), "minWriterVersion": pyarrow.int32(),
        "writerFeatures": pyarrow.list_(_TEXT),
    }),
    "metaData": pyarrow.struct({
        "id": _TEXT, "format": pyarrow.struct({"provider": _TEXT, "options": _TEXTS}),
        "schemaString": _TEXT, "partitionColumns": pyarrow.list_(_TEXT), "configuration": _TEXTS,
        "createdTime": pyarrow.int64(),
    }),
    "add": pyarrow.struct({
        "path": _TEXT, "partitionValues": _TEXTS, "size": pyarrow.int64(),
        "modificationTime": pyarrow.int64(), "dataChange": pyarrow.bool_(), "stats": _TEXT,
    }),
})  # fmt: skip


class DataFile(NamedTuple):
    """A Parquet file of a run."""

    uri: str
    bytes: int
    modified_ms: int
    rows: int


ListFiles = Callable[[str], Iterable[DataFile]]
"""Lists the Parquet files in a run's directory and below."""


class _Log(NamedTuple):
    """The newest version of a log, and its newest checkpoint (-1 if there is none).

    Args:
        names: the names of its files.
        files: the data files that it names, by their paths.
    """

    version: int
    checkpoint: int
    names: list[str]
    metadata: dict[str, Any]
    files: dict[str, dict[str, Any]]


def list_local_files(folder: str) -> Iterator[DataFile]:
    """List the Parquet files in a directory of this machine."""
    for file in Path(folder).rglob("*.parquet"):
        status, rows = file.stat(), parquet.read_metadata(file).num_rows
        yield DataFile(str(file), status.st_size, status.st_mtime_ns // 1_000_000, rows)


def update_delta(
    storage: Storage, table: str, list_files: ListFiles, *, is_wanted: bool = False
) -> None:
    """Bring the Delta logs of a table to its newest commit; do nothing if it has none.

    Args:
        is_wanted: create the logs if the table has none.

    Raises:
        TableError: a log is damaged, or the newest commit cannot be read.
        OSError: a log cannot be written.
    """
    if is_wanted or storage.names(f"{table}/events/_delta_log"):
        for part in _COLUMNS:
            # False: another ingest has added a version in the meantime.
            while not _add_version(storage, table, part, list_files):
                pass


def _add_version(storage: Storage, table: str, part: str, list_files: ListFiles) -> bool:
    """Add a version if the log differs from the newest commit. Return False if it exists."""
    place = f"{table}/{part}/_delta_log"
    log = _read_log(storage, place)
    commit = read_newest_commit(storage, table)  # after the log, so that it is not older
    live = _list_folders(commit, part)
    missing = live - {_folder_of(path) for path in log.files}
    listed = (
        _describe_file(run, file)
        for run in sorted({folder.split("/")[0] for folder in missing})
        for file in list_files(f"{table}/{part}/{run}")
    )
    added = [file for file in listed if _folder_of(file["path"]) in missing]
    kept = [file for path, file in log.files.items() if _folder_of(path) in live]
    now_ms = time.time_ns() // 1_000_000
    metadata = _describe_table(
        part, log.metadata or {"id": str(uuid.uuid4()), "createdTime": now_ms}
    )
    if not added and len(kept) == len(log.files) and metadata == log.metadata:
        return True
    head: list[Action] = [{"protocol": _PROTOCOL}, {"metaData": metadata}]
    removed = log.files.keys() - {file["path"] for file in kept}
    when = {"deletionTimestamp": now_ms, "dataChange": True}
    change = {"timestamp": now_ms, "operation": "WRITE", "engineInfo": "authorizerd"}
    actions: list[Action] = [
        {"commitInfo": {**change, "operationParameters": {"commit": str(commit.number)}}},
        *(head if metadata != log.metadata else ()),
        *({"remove": {"path": path, **when}} for path in sorted(removed)),
        *({"add": file} for file in added),
    ]
    version = log.version + 1
    data = b"\n".join(map(msgspec.json.encode, actions))
    if not storage.create(f"{place}/{version:020d}.json", data):
        return False
    if version - log.checkpoint >= CHECKPOINT_VERSIONS:
        _write_checkpoint(storage, place, version, [*head, *({"add": f} for f in (*kept, *added))])
        for pattern in (_VERSION, _CHECKPOINT):
            for number, name in _find_numbers(pattern, log.names).items():
                if number < version - VERSIONS_KEPT:
                    storage.remove(f"{place}/{name}")
    return True


def _list_folders(commit: Commit, part: str) -> set[str]:
    """Return the directories with the files of a part of the table, below that of the part."""
    if part == "events":
        return {f"run={run.id}/day={day}" for run in commit.runs for day in run.days}
    return set() if commit.tuples_run is None else {f"run={commit.tuples_run}"}


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _describe_file(run: str, file: DataFile) -> dict[str, Any]:
    path = file.uri[file.uri.rindex(f"{run}/") :]  # in a URI, too, nothing of it is encoded
    values = dict(name.split("=", 1) for name in path.split("/")[:-1])
    return {
        "path": path,
        "partitionValues": values if "day" in values else {},
        "size": file.bytes,
        "modificationTime": file.modified_ms,
        "dataChange": True,
        "stats": msgspec.json.encode({"numRecords": file.rows}).decode(),
    }


def _describe_table(part: str, before: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a part, with the id and the time of ``before``."""
    columns = (column.split() for column in _COLUMNS[part].split(", "))
    fields = [
        {"name": name, "type": _TYPES.get(kind, kind), "nullable": True, "metadata": {}}
        for name, kind in columns
    ]
    return {
        **before,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": msgspec.json.encode({"type": "struct", "fields": fields}).decode(),
        "partitionColumns": _PARTITIONED_BY[part],
        "configuration": {},
    }


def _find_numbers(pattern: re.Pattern[str], names: list[str]) -> dict[int, str]:
    return {int(found[1]): found[0] for found in map(pattern.fullmatch, names) if found}


def _read_log(storage: Storage, place: str) -> _Log:
    names = storage.names(place)
    checkpoint = max(_find_numbers(_CHECKPOINT, names), default=-1)
    version = max(_find_numbers(_VERSION, names), default=-1)
    metadata: dict[str, Any] = {}
    files = {}
    try:
        for action in _read_actions(storage, place, checkpoint, version):
            if "add" in action:
                files[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                files.pop(action["remove"]["path"], None)
            metadata = action.get("metaData", metadata)
    except (*DECODING_ERRORS, OSError, KeyError, pyarrow.ArrowException) as error:
        raise TableError(
            f"{place}: {error}: remove this directory, and run ingest with --delta"
        ) from error
    return _Log(version, checkpoint, names, metadata, files)


def _read_actions(storage: Storage, place: str, checkpoint: int, version: int) -> Iterator[Action]:
    if checkpoint >= 0:
        data = storage.read(f"{place}/{checkpoint:020d}.checkpoint.parquet")
        rows = parquet.read_table(pyarrow.BufferReader(data))
        for row in rows.to_pylist(maps_as_pydicts="strict"):
            yield {name: action for name, action in row.items() if action is not None}
    for number in range(checkpoint + 1, version + 1):
        for line in storage.read(f"{place}/{number:020d}.json").splitlines():
            yield msgspec.json.decode(line, type=Action)


def _write_checkpoint(storage: Storage, place: str, version: int, actions: list[Action]) -> None:
    """Write a checkpoint. Until it is complete, readers read the versions instead."""
    file = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist(actions, _CHECKPOINT_SCHEMA), file)
    storage.create(f"{place}/{version:020d}.checkpoint.parquet", file.getvalue().to_pybytes())
    newest = {"version": version, "size": len(actions)}
    storage.replace(f"{place}/_last_checkpoint", msgspec.json.encode(newest))
