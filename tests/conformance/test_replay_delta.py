"""Delta's own library reads the logs that an ingest derives, and refuses to write.

It is not a requirement of the tests, as it takes 140 MB: ``pip install deltalake``.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from authorizerd.replay.ingest.commit import encode_commit, name_commit, read_newest
from authorizerd.replay.ingest.delta import CHECKPOINT_VERSIONS, list_local_files, update_delta
from authorizerd.replay.plain_files import LocalFiles
from tests.ops.replay.recorded_events import RUN, Event, write_events

DAY_MS = 86_400_000


def add_run(table: Path, number: int, events: Sequence[Event]) -> None:
    """Add a run with ``events``, and leave out the oldest of more than three runs."""
    run = f"{number:08d}-ab"
    made = write_events(table / "made" / run, events)
    for part in ("events", "tuples"):
        (made / part / RUN).rename(table / part / f"run={run}")
    before, (added,) = read_newest(table), read_newest(made).runs
    runs = (*before.runs, replace(added, id=run))[-3:]
    commit = replace(before, number=number, runs=runs, tuples_run=run)
    (table / "commits" / name_commit(number)).write_bytes(encode_commit(commit))
    for folder in (table / "events").glob("run=*"):
        if folder.name[4:] not in {run.id for run in runs}:
            shutil.rmtree(folder)


def test_delta_reads_the_newest_commit_and_refuses_to_write(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    event = Event("User:a", None, "READ", "TOPIC", "t", True)
    write_events(tmp_path, [event])
    for number in range(2, CHECKPOINT_VERSIONS + 6):
        events = [event._replace(resource_name=f"t{number}", at=day * DAY_MS) for day in range(2)]
        add_run(tmp_path, number, events)
        update_delta(LocalFiles(), str(tmp_path), list_local_files, is_wanted=True)
        expected = [f"t{each}" for each in range(max(number - 2, 2), number + 1)]
        for part, names in (
            ("events", [*(2 * expected if number > 3 else expected * 2 + ["t"])]),
            ("tuples", [f"t{number}"]),
        ):
            table = deltalake.DeltaTable(tmp_path / part)
            rows = table.to_pyarrow_table().to_pylist()
            assert sorted(row["resource_name"] for row in rows) == sorted(names)
            if part == "events":
                assert all(row["at"].date() == row["day"] for row in rows)
    with pytest.raises(Exception, match="Unsupported table features required"):
        deltalake.write_deltalake(tmp_path / "tuples", table.to_pyarrow_table(), mode="append")
