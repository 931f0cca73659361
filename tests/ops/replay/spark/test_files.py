from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from authorizerd.replay.errors import JobError
from authorizerd.replay.plain_files import LocalFiles, Storage
from tests.ops.replay.sessions import session_on

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession


@pytest.fixture(params=["LocalFiles", "HadoopFiles", "ServerFiles", "SparkFiles"])
def files(request: pytest.FixtureRequest, spark: SparkSession) -> Storage:
    """Return each storage in turn. All reach the files of this machine."""
    from authorizerd.replay.spark import storage

    kind = getattr(storage, request.param)
    return cast("Storage", LocalFiles() if kind is LocalFiles else kind(spark))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "not there {yet} ?#%20"


def test_a_file_is_written_read_replaced_and_removed(files: Storage, folder: Path) -> None:
    uri = f"file:{folder}/ingest.json"
    assert not files.is_occupied(f"file:{folder}")
    for text in ('a longer first one: "\\n"\n', "zwölf\n\n"):
        files.replace(uri, text.encode())
        assert files.read(uri).decode().rstrip("\n") == text.rstrip("\n")
    assert files.is_occupied(f"file:{folder}")
    assert "ingest.json" in files.names(f"file:{folder}")
    for _ in range(2):
        files.remove(uri)
    assert not files.is_occupied(f"file:{folder}")
    with pytest.raises(FileNotFoundError, match=r"ingest\.json does not exist"):
        files.read(uri)


def test_a_file_is_created_once(files: Storage, folder: Path) -> None:
    uri = f"file:{folder}/commits/00000001.json"
    if type(files).__name__ == "SparkFiles":
        with pytest.raises(JobError, match="only on a disk of the server"):
            files.check_creates(uri)
        return
    files.check_creates(uri)
    for number in (1, 2):  # what killed processes left, and what another one is writing
        files.replace(f"file:{folder}/commits/.0000000{number}.json.0a1b2c3d", b"half")
    for _ in range(2):  # an attempt whose answer was lost is repeated
        assert files.create(uri, b"first\n")
    assert not files.create(uri, b"second\n")
    assert files.read(uri) == b"first\n"
    names = files.names(f"file:{folder}/commits")
    assert sorted(names) == [".00000002.json.0a1b2c3d", "00000001.json"]
    files.remove(f"file:{folder}")
    assert not folder.exists()


def test_what_a_killed_process_left_is_removed_with_the_next_text(tmp_path: Path) -> None:
    for name in ("_ingest.json.0a1b2c3d.being-written", "_ingest.json.77.being-written", "b"):
        (tmp_path / name).touch()
    LocalFiles().replace(f"{tmp_path}/ingest.json", b"{}")
    assert sorted(LocalFiles().names(str(tmp_path))) == ["b", "ingest.json"]


@pytest.mark.parametrize("kind", ["create", "replace"])
@pytest.mark.parametrize("is_written", [True, False])
def test_content_that_another_process_took_for_left_behind_is_missed_only_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_written: bool
) -> None:
    """The other process has just written the same file."""

    def lose(source: Path, target: Path) -> None:
        Path(source).unlink()
        if is_written:
            Path(target).write_text("other")
        raise FileNotFoundError(errno.ENOENT, "gone", str(source))

    for function in ("link", "replace"):
        monkeypatch.setattr(os, function, lose)
    uri = tmp_path / "commits/00000001.json"
    with nullcontext() if is_written else pytest.raises(FileNotFoundError):
        assert not getattr(LocalFiles(), kind)(str(uri), b"own")
    assert not is_written or uri.read_text() == "other"


@pytest.mark.parametrize("files", ["LocalFiles", "HadoopFiles", "ServerFiles"], indirect=True)
@pytest.mark.parametrize(("parts", "error"), [
    (["part-00000"], None), ([], "was stopped while being written"),
    (["part-00000", "part-00001"], "expected one part file, found 2"),
])  # fmt: skip
def test_a_text_that_earlier_versions_wrote_is_read(
    files: Storage, tmp_path: Path, parts: list[str], error: str | None
) -> None:
    uri = tmp_path / "whatif.json"
    uri.mkdir()
    for name in ("_SUCCESS", *parts):
        (uri / name).write_text("zwölf\n" if name.startswith("part") else "")
    if error is None:
        assert files.read(f"file:{uri}") == "zwölf\n".encode()
    else:
        with pytest.raises(OSError, match=error):
            files.read(f"file:{uri}")
    files.replace(f"file:{uri}", b"plain\n")
    assert uri.read_text() == "plain\n"


def test_a_rename_that_replaces_nothing_creates_a_file_on_hdfs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps are tried on a disk of this machine, whose rename is not one step."""
    from authorizerd.replay.spark import storage

    monkeypatch.setattr(storage, "_RENAMES", ("hdfs", "file"))
    files = storage.HadoopFiles(spark)
    place = f"file:{tmp_path}/commits/00000001.json"
    resolve = files._resolve
    monkeypatch.setattr(files, "_resolve", lambda uri: ("hdfs", resolve(uri)[1]))
    for _ in range(2):
        assert files.create(place, b"first")
    assert not files.create(place, b"second")
    assert [path.name for path in (tmp_path / "commits").glob("[!.]*")] == ["00000001.json"]
    assert files.read(place) == b"first"


def test_a_checksum_that_hadoop_left_does_not_hide_a_new_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    from authorizerd.replay.spark import storage

    files = storage.HadoopFiles(spark)
    uri = f"file:{tmp_path}/ingest.json"
    files._write(*files._open(uri), b"with a checksum")
    assert (tmp_path / ".ingest.json.crc").exists()
    LocalFiles().replace(uri, b"without one")
    assert files.read(uri) == b"without one"


def test_a_file_system_without_such_a_step_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from authorizerd.replay.spark import storage

    files = storage.HadoopFiles(spark)
    monkeypatch.setattr(files, "_resolve", lambda uri: ("abfs", uri))
    with pytest.raises(JobError, match=r"cannot be created in one step on abfs.*: use one of file"):
        files.check_creates(str(tmp_path))


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_store_that_ignores_the_condition_of_a_request_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_ignored: bool
) -> None:
    from authorizerd.replay.spark import storage

    files = storage.HadoopFiles(spark)
    monkeypatch.setattr(files, "_resolve", lambda uri: ("s3a", uri))

    def put(hadoop: Any, path: Any, data: bytes) -> bool:  # noqa: ANN401 - Hadoop's
        if hadoop.exists(path) and not is_ignored:
            return False
        files._write(hadoop, path, data)
        return True

    monkeypatch.setattr(files, "_create_if_new", put)
    refusal = pytest.raises(JobError, match=r"\(If-None-Match\), found one that replaced it")
    with refusal if is_ignored else nullcontext():
        files.check_creates(f"file:{tmp_path}/commits/00000001.json")
    assert list((tmp_path / "commits").iterdir()) == []


@pytest.mark.parametrize("files", ["LocalFiles", "HadoopFiles", "SparkFiles"], indirect=True)
def test_a_file_over_the_limit_is_rejected(
    files: Storage, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("authorizerd.replay.plain_files.TEXT_BYTES_MAX", 3)
    folder.mkdir()
    (folder / "long").write_text("four")
    with pytest.raises(OSError, match=r"long: 4 bytes exceed the limit of 3"):
        files.read(f"file:{folder}/long")


def test_unreachable_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.spark.storage import open_storage

    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"^nowhere://x/y: .*No FileSystem for scheme") as caught:
        open_storage(spark, "nowhere://x/y").read("nowhere://x/y")
    assert "\n" not in str(caught.value)
    with pytest.raises(OSError, match=str(tmp_path)):
        open_storage(spark, str(tmp_path)).replace(f"{tmp_path}/file/below", b"text\n")


def test_empty_files_below_a_glob_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.spark.listing import list_files

    for name, text in (("a/one.log", "1"), ("a/b/two.log", "22"), ("a/empty", ""), ("a/_x", "x")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = {row.path: row.length for row in list_files(spark, f"{tmp_path}/a*")}
    assert found == {f"file:{tmp_path}/a/one.log": 1, f"file:{tmp_path}/a/b/two.log": 2}
    assert list_files(spark, f"{tmp_path}/b*") == []


def test_only_the_drivers_own_paths_are_local() -> None:
    from authorizerd.replay.spark.listing import local_path

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
