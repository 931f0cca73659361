"""Find the files of an ingest on this machine, which needs no Spark."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from authorizerd.replay.ingest.commit import Input
from authorizerd.replay.ingest.inputs import check_sources, find_inputs
from authorizerd.replay.spark.errors import JobError
from tests.ops.replay.sessions import LOCAL


def test_directory_above_is_listed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b.log").touch()
    (found,) = find_inputs(LOCAL, (f"{tmp_path}/a/..",))
    assert found.uri == f"file:{tmp_path}/b.log"


def test_pipe_is_rejected_instead_of_read_as_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    for text in (f"{tmp_path}/pipe.log", str(tmp_path)):
        with pytest.raises(JobError, match=r"/pipe\.log: expected a regular file"):
            find_inputs(LOCAL, (text,))


def test_unreadable_file_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.log").symlink_to("nowhere")
    with pytest.raises(JobError, match=r"/broken\.log: No such file or directory"):
        find_inputs(LOCAL, (str(tmp_path),))


def test_name_that_is_not_utf_8_is_rejected_before_the_ingest(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.log")).touch()
    with pytest.raises(JobError, match=r"/caf.udce9\.log': expected a name in UTF-8"):
        find_inputs(LOCAL, (str(tmp_path),))


def test_link_to_a_directory_above_lists_no_file_twice(tmp_path: Path) -> None:
    (tmp_path / "logs" / "old").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    for file in ("logs/a.log", "elsewhere/b.log"):
        (tmp_path / file).touch()
    (tmp_path / "logs" / "old" / "loop").symlink_to(tmp_path / "logs")
    (tmp_path / "logs" / "more").symlink_to(tmp_path / "elsewhere")
    found = [file.uri for file in find_inputs(LOCAL, (str(tmp_path / "logs"),))]
    assert found == [f"file:{tmp_path}/logs/{name}" for name in ("a.log", "more/b.log")]


def test_hidden_file_named_directly_is_an_error(tmp_path: Path) -> None:
    hidden = [tmp_path / name for name in ("_a.log", ".a.log", "a.log._COPYING_")]
    for file in (*hidden, tmp_path / "b.log"):
        file.touch()
    for file in hidden:
        with pytest.raises(JobError, match="no files found"):
            find_inputs(LOCAL, (str(tmp_path / "b.log"), str(file)))
    for text in (f"{tmp_path}/*", str(tmp_path)):
        assert [file.uri for file in find_inputs(LOCAL, (text,))] == [f"file:{tmp_path}/b.log"]


NEW, OLD = (
    "file:/t/events/run=00000001-a/day=2026-11-21/a.parquet",
    "s3://b/u/events/run=00000001-b/day=1/a.parquet",
)
LOG, OTHER_TOOL, TOPIC = "file:/logs/a.log", "file:/events/a.parquet", "kafka://h:1/audit"


@pytest.mark.parametrize(("uris", "topics", "found"), [
    ((NEW, LOG), (), f"file:/t: .*found {LOG}"),
    ((LOG, OLD, f"{LOG}.gz"), (), f"s3://b/u: .*found {LOG}"),
    ((NEW, OLD), (), "file:/t: .*found s3://b/u"),
    ((NEW,), (TOPIC,), f"file:/t: .*found {TOPIC}"),
    ((NEW, NEW.replace("run=00000001", "run=00000002"), OTHER_TOOL), (), None),
    ((LOG, f"{LOG}.gz", OTHER_TOOL), (TOPIC,), None),
])  # fmt: skip
def test_table_is_not_mixed_with_what_it_may_contain(
    uris: tuple[str, ...], topics: tuple[str, ...], found: str | None
) -> None:
    files = [Input(uri=uri, bytes=1, modified_ms=1) for uri in uris]
    raised = nullcontext() if found is None else pytest.raises(JobError, match=found)
    with raised:
        check_sources(files, topics)
