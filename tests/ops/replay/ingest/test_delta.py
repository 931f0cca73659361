"""A reader of Delta sees what the newest commit says, whatever happened to the updates."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.replay.ingest import delta
from authorizerd.replay.ingest.commit import Commit, Run, TableError, encode_commit, name_commit
from authorizerd.replay.ingest.delta import list_local_files, update_delta
from authorizerd.replay.ingest.report import add_up
from authorizerd.replay.plain_files import LocalFiles
from tests.ops.replay.ingest.delta_reader import read_delta
from tests.support.sizes import size

DAYS: Final = ("2026-11-21", "2026-11-22", "2026-11-23")
COMMITS_KEPT: Final = 3
NOTHING: Final = add_up([], 0)

Rows = set[tuple[str, ...]]
"""The run and the day of each event, and the run of the tuples."""


class StoppedError(Exception):
    """The ingest was killed."""


class FragileFiles(LocalFiles):
    """Files of an ingest that is killed before a call, or is overtaken by another one there."""

    def __init__(self, before: Callable[[], object], call: int) -> None:
        self._before = before
        self._left = call

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("_"):
            self._left -= 1
            if self._left == 0:
                self._before()
        return super().__getattribute__(name)


class LateFiles(LocalFiles):
    """Files of an ingest that is delayed before its first write."""

    def __init__(self) -> None:
        self.write: Callable[[], object] = lambda: None

    def create(self, uri: str, data: bytes) -> bool:
        self.write = partial(super().create, uri, data)
        raise StoppedError


class History:
    """A table, and what its commits contain."""

    def __init__(self, table: Path) -> None:
        self.table = table
        self.commit = Commit(number=0, salt=1, runs=(), tuples_run=None, ingested=NOTHING)
        self._rows: list[Rows] = []
        self._kept: list[Commit] = []
        self._seen = 0

    def add_commit(self, *, kept_runs: tuple[Run, ...], days: tuple[str, ...]) -> None:
        """Add a commit of these runs, and of a new run with an event on each of the days."""
        number = self.commit.number + 1
        run, tuples_run = f"{number:08d}-a", self.commit.tuples_run
        runs = kept_runs
        if days:
            for folder in (*(f"events/run={run}/day={day}" for day in days), f"tuples/run={run}"):
                (self.table / folder).mkdir(parents=True)
                rows = pyarrow.table({"line": pyarrow.nulls(1, pyarrow.string())})
                parquet.write_table(rows, self.table / folder / "part-0.parquet")
            runs, tuples_run = (*runs, Run(id=run, days=days, ingested=NOTHING)), run
        tuples_run = tuples_run if runs else None
        self.commit = replace(self.commit, number=number, runs=runs, tuples_run=tuples_run)
        place = self.table / "commits" / name_commit(number)
        LocalFiles().create(str(place), encode_commit(self.commit))
        events: Rows = {(run.id, day) for run in runs for day in run.days}
        self._rows.append(events | ({(tuples_run,)} if tuples_run else set()))

    def update(self, storage: LocalFiles | None = None) -> None:
        """Update the logs, and remove the runs that no kept commit needs."""
        update_delta(storage or LocalFiles(), str(self.table), list_local_files, is_wanted=True)
        self._kept = [*self._kept, self.commit][-COMMITS_KEPT:]
        needed = {run.id for commit in self._kept for run in commit.runs}
        needed |= {commit.tuples_run or "" for commit in self._kept}
        for folder in self.table.glob("*/run=*"):
            if folder.name.removeprefix("run=") not in needed:
                shutil.rmtree(folder)

    def check(self, *, is_complete: bool) -> None:
        """Check that readers see each part as of a commit that is not older than before."""
        seen: Rows = set()
        for part, by_day in (("events", True), ("tuples", False)):
            if (self.table / part / "_delta_log").exists():
                for file, values in read_delta(self.table / part).files.items():
                    (run,) = (each[4:] for each in file.parts if each.startswith("run="))
                    if by_day:
                        assert values == {"run": run, "day": file.parent.name[4:]}
                    seen.add((run, values["day"]) if by_day else (run,))
        if is_complete:
            assert seen == self._rows[-1]
        of_events = {row for row in seen if len(row) == 2}
        shown = [
            number
            for number, rows in enumerate([set(), *self._rows])
            if of_events == {row for row in rows if len(row) == 2}
        ]
        assert shown, "no commit has these events"
        assert shown[-1] >= self._seen
        self._seen = shown[-1] if is_complete else self._seen


@pytest.fixture(autouse=True)
def small_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "CHECKPOINT_VERSIONS", 3)
    monkeypatch.setattr(delta, "VERSIONS_KEPT", 4)


KINDS: Final = ("add", "add", "add", "expire", "expire a day", "overwrite")
INGESTS: Final = st.tuples(
    st.sampled_from(KINDS),
    st.lists(st.sampled_from(DAYS), unique=True, max_size=3).map(tuple),
    st.sampled_from(("", "killed", "race", "late")),
    st.integers(1, 12),
)
"""What an ingest does, the days of its events, and what happens before which call of its update."""


@given(st.lists(INGESTS, min_size=1, max_size=size(15, 40)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reader_sees_the_newest_commit(
    ingests: list[tuple[str, tuple[str, ...], str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        history = History(Path(folder))

        def ingest_more() -> None:
            history.add_commit(kept_runs=history.commit.runs, days=DAYS[:1])
            update_delta(LocalFiles(), folder, list_local_files, is_wanted=True)

        for kind, days, fault, call in ingests:
            late = LateFiles()  # of an ingest that has read the table, and writes below
            with suppress(StoppedError, TableError):
                update_delta(late, folder, list_local_files)
            history.add_commit(kept_runs=_keep(history.commit.runs, kind), days=days)
            before = {"killed": _stop, "race": ingest_more}.get(fault, late.write)
            storage = FragileFiles(before, call if fault else 0)
            if fault == "killed":
                with suppress(StoppedError):
                    history.update(storage)
            else:
                history.update(storage)
            history.check(is_complete=fault != "killed")
        history.update()
        history.check(is_complete=True)
        names = sorted(history.table.glob("*/_delta_log/*"))
        history.update()
        assert sorted(history.table.glob("*/_delta_log/*")) == names, "nothing is new"


def test_log_keeps_its_size(tmp_path: Path) -> None:
    history = History(tmp_path)
    for _ in range(14):
        history.add_commit(kept_runs=history.commit.runs, days=DAYS[:1])
        history.update()
    names = sorted(file.name.lstrip("0") for file in (tmp_path / "tuples/_delta_log").iterdir())
    versions = [f"{number}.json" for number in (10, 11, 12, 13, 7, 8, 9)]
    checkpoints = [f"{number}.checkpoint.parquet" for number in (11, 8)]
    assert names == sorted([*versions, *checkpoints, "_last_checkpoint"])


def test_table_has_no_log_unless_it_is_wanted(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.add_commit(kept_runs=(), days=DAYS)
    update_delta(LocalFiles(), str(tmp_path), list_local_files)
    assert not list(tmp_path.glob("*/_delta_log"))


def test_new_columns_reach_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(tmp_path)
    history.add_commit(kept_runs=(), days=DAYS)
    history.update()
    first = read_delta(tmp_path / "events")
    assert [*first.columns][-2:] == ["run", "day"]
    assert {"at": "timestamp", "allowed": "boolean", "reference_count": "integer"}.items() <= (
        first.columns.items()
    )
    more = {"events": f"{delta._COLUMNS['events']}, more long", "tuples": "more long"}
    monkeypatch.setattr(delta, "_COLUMNS", more)
    history.update()
    second = read_delta(tmp_path / "events")
    assert second == (1, {**first.columns, "more": "long"}, first.files)


@pytest.mark.parametrize("damage", [b"{", b'{"add":{}}', b"\xff"])
def test_damaged_log_is_named(tmp_path: Path, damage: bytes) -> None:
    history = History(tmp_path)
    history.add_commit(kept_runs=(), days=DAYS)
    history.update()
    (tmp_path / "tuples/_delta_log" / f"{0:020}.json").write_bytes(damage)
    with pytest.raises(TableError, match=r"tuples/_delta_log: .*: remove this directory, and run"):
        history.update()
    shutil.rmtree(tmp_path / "tuples/_delta_log")
    history.update()
    history.check(is_complete=True)


def _keep(runs: tuple[Run, ...], kind: str) -> tuple[Run, ...]:
    if kind == "overwrite":
        return ()
    if kind == "expire":
        return runs[1:]
    if kind == "expire a day":
        return tuple(replace(run, days=run.days[1:]) for run in runs if run.days[1:])
    return runs


def _stop() -> None:
    raise StoppedError
