from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_text_is_written_read_and_replaced(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.spark.files import is_occupied, read_text, remove_file, write_text

    folder = tmp_path / "not there yet"
    uri = str(folder / "ingest.json")
    assert not is_occupied(spark, str(folder))
    for text in ("a longer first one", "zwölf\n"):
        write_text(spark, uri, text)
        assert read_text(spark, uri) == text
    assert is_occupied(spark, str(folder))
    assert sorted(path.name for path in folder.glob("[!.]*")) == ["ingest.json"]
    remove_file(spark, uri)
    remove_file(spark, uri)
    with pytest.raises(FileNotFoundError, match=r"ingest\.json does not exist"):
        read_text(spark, uri)


def test_unreachable_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.spark.files import read_text, write_text

    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"^nowhere://x/y: No FileSystem for scheme") as caught:
        read_text(spark, "nowhere://x/y")
    assert "\n" not in str(caught.value)
    with pytest.raises(OSError, match=str(tmp_path)):
        write_text(spark, f"{tmp_path}/file/below", "text")


def test_python_workers_import_this_tree(spark: SparkSession) -> None:
    """The tests must not use an installed copy."""

    def place(_: object) -> list[str]:
        import authorizerd.replay.plans

        return [authorizerd.replay.plans.__file__]

    (found,) = set(spark.sparkContext.parallelize([1, 2], 2).flatMap(place).collect())
    assert Path(found).samefile(Path(__file__).parents[4] / "ops/replay/plans.py")
