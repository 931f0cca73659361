from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ops.replay.sessions import session_on

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession


@pytest.fixture(params=["driver", "spark"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that Python reads, or that only Spark reads, as on an object store."""
    if request.param == "spark":
        monkeypatch.setattr("authorizerd.replay.spark.files.local_path", lambda *_: None)
    return tmp_path / "not there {yet}"


def test_text_is_written_read_and_replaced(spark: SparkSession, folder: Path) -> None:
    from authorizerd.replay.spark.files import is_occupied, read_text, remove_file, write_text

    uri = str(folder / "ingest.json")
    assert not is_occupied(spark, str(folder))
    for text in ('a longer first one: "\\n"\n', "zwölf\n\n"):
        write_text(spark, uri, text)
        assert read_text(spark, uri) == text
    assert is_occupied(spark, str(folder))
    assert sorted(path.name for path in folder.glob("[!.]*")) == ["ingest.json"]
    remove_file(spark, uri)
    remove_file(spark, uri)
    assert not is_occupied(spark, str(folder))
    with pytest.raises(FileNotFoundError, match=r"ingest\.json does not exist"):
        read_text(spark, uri)


def test_text_that_a_cluster_wrote_is_read_here(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.spark.files import read_text

    part = tmp_path / "whatif.json/part-00000"
    part.parent.mkdir()
    part.write_text("zwölf\n")
    (part.parent / "_SUCCESS").touch()
    assert read_text(spark, str(part.parent)) == "zwölf\n"


def test_text_over_the_limit_is_rejected(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from authorizerd.replay.spark.files import read_text

    monkeypatch.setattr("authorizerd.replay.spark.files.TEXT_BYTES_MAX", 3)
    folder.mkdir()
    (folder / "long").write_text("four")
    with pytest.raises(OSError, match=r"long: 4 bytes exceed the limit of 3"):
        read_text(spark, str(folder / "long"))


def test_unreachable_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.spark.files import read_text, write_text

    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"^nowhere://x/y: .*No FileSystem for scheme") as caught:
        read_text(spark, "nowhere://x/y")
    assert "\n" not in str(caught.value)
    with pytest.raises(OSError, match=str(tmp_path)):
        write_text(spark, f"{tmp_path}/file/below", "text\n")


def test_empty_files_below_a_glob_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.spark.files import list_files

    for name, text in (("a/one.log", "1"), ("a/b/two.log", "22"), ("a/empty", ""), ("a/_x", "x")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = {row.path: row.length for row in list_files(spark, f"{tmp_path}/a*")}
    assert found == {f"file:{tmp_path}/a/one.log": 1, f"file:{tmp_path}/a/b/two.log": 2}
    assert list_files(spark, f"{tmp_path}/b*") == []


def test_only_the_drivers_own_paths_are_local() -> None:
    from authorizerd.replay.spark.files import local_path

    def find(uri: str, master: str) -> Path | None:
        return local_path(session_on(master), uri)

    assert find("/a b", "local[2]") == Path("/a b")
    assert find("/a", "local") == Path("/a")
    assert find("/a", "spark://h:1") is None
    assert find("a", "local-cluster[2,1,1024]") is None
    for path in ("/a%20b", "/logs/a?.log", "/run#1"):  # Hadoop reads a URI in the same way
        for prefix in ("file:", "file://", "file://localhost"):
            assert find(f"{prefix}{path}", "spark://h:1") == Path(path)
    assert find("hdfs://n/a", "local[2]") is None


def test_python_workers_import_this_tree(spark: SparkSession) -> None:
    """The tests must not use an installed copy."""

    def place(_: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        import pyarrow

        import authorizerd.replay.plans

        yield pyarrow.RecordBatch.from_pydict({"place": [authorizerd.replay.plans.__file__]})

    (found,) = {row.place for row in spark.range(2).mapInArrow(place, "place string").collect()}
    assert Path(found).samefile(Path(__file__).parents[4] / "ops/replay/plans.py")
