"""Read a Delta table by the protocol's steps for readers; shares no code with ingest."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as parquet


class DeltaTable(NamedTuple):
    """The newest version: its columns, and its files with the values of their partitions."""

    version: int
    columns: dict[str, str]
    files: dict[Path, dict[str, str]]


def read_delta(folder: Path) -> DeltaTable:
    """Return the newest version of the Delta table in ``folder``; all its files must exist."""
    log = folder / "_delta_log"
    version, actions = -1, []
    if (log / "_last_checkpoint").exists():
        newest = json.loads((log / "_last_checkpoint").read_text())
        version = newest["version"]
        checkpoint = parquet.read_table(log / f"{version:020}.checkpoint.parquet")
        assert len(checkpoint) == newest["size"]
        actions = checkpoint.to_pylist(maps_as_pydicts="strict")
    while (file := log / f"{version + 1:020}.json").exists():
        version += 1
        actions += map(json.loads, file.read_text().splitlines())
    newest_of: dict[str, Any] = {}
    added: dict[str, Any] = {}
    for action in actions:
        newest_of |= {name: value for name, value in action.items() if value is not None}
        if action.get("add"):
            added[action["add"]["path"]] = action["add"]
        if action.get("remove"):
            del added[action["remove"]["path"]]
    assert newest_of["protocol"]["minReaderVersion"] == 1
    metadata = newest_of["metaData"]
    for path, file_added in added.items():
        assert file_added["size"] == (folder / path).stat().st_size
        rows = parquet.read_metadata(folder / path).num_rows
        assert json.loads(file_added["stats"]) == {"numRecords": rows}
        assert [*file_added["partitionValues"]] == metadata["partitionColumns"]
    columns = {
        each["name"]: each["type"] for each in json.loads(metadata["schemaString"])["fields"]
    }
    files = {folder / path: file_added["partitionValues"] for path, file_added in added.items()}
    return DeltaTable(version, columns, files)
