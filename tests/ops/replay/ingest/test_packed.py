from __future__ import annotations

import gzip
import lzma
import random
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.ingest.parse.logs import DamagedArchiveError, read_log

pytest.importorskip("pyspark", reason="pyspark is not installed")

from authorizerd.replay.ingest.packed import ROW_BYTES_MAX, packed_files, packed_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pyarrow.schema(
    {"packed": pyarrow.binary(), "file": pyarrow.string(), "size": pyarrow.int64()}
)
BINARY = st.lists(st.sampled_from([b"\n", b"a", b"\r\n", b"\xff\0"]), min_size=1).map(b"".join)
MIB = 1024 * 1024
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": lambda data: gzip.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
    "zst": lambda data: bytes(pyarrow.compress(data, codec="zstd", asbytes=True)),
}


def rows_of(data: bytes) -> list[bytes]:
    """Return the rows in which Spark reads a file: a line feed at its end begins no row."""
    return data.removesuffix(b"\n").split(b"\n")


def batch_of(rows: list[tuple[bytes, str, int]]) -> pyarrow.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pyarrow.record_batch(
        [pyarrow.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)],
        schema=SCHEMA,
    )


@given(st.lists(BINARY, max_size=5), st.integers(1, 7))
def test_rows_in_any_batches_give_the_exact_bytes(files: list[bytes], batch_rows: int) -> None:
    rows = [
        (row, f"f{number}", len(data)) for number, data in enumerate(files) for row in rows_of(data)
    ]
    batches = (
        batch_of(rows[start : start + batch_rows]) for start in range(0, len(rows) + 1, batch_rows)
    )
    found = [(file, packed.read()) for file, packed in packed_files(batches)]
    assert found == [(f"f{number}", data) for number, data in enumerate(files)]


def test_unread_file_is_skipped() -> None:
    batch = batch_of([(b"a", "x", 3), (b"b", "x", 3), (b"c", "y", 2)])
    assert [file for file, _ in packed_files([batch])] == ["x", "y"]


@pytest.mark.parametrize("suffix", PACK)
def test_missing_bytes_are_damage(suffix: str) -> None:
    packed = PACK[suffix](b"line\n" * 10)
    batch = batch_of([(packed, f"a.{suffix}", len(packed) + 5)])
    _, file = next(packed_files([batch]))
    with pytest.raises(OSError, match="4 bytes of the packed file are missing"):
        file.read()
    _, file = next(packed_files([batch]))
    with pytest.raises(DamagedArchiveError):
        list(read_log(f"a.{suffix}", file))


@pytest.mark.parametrize("suffix", PACK)
def test_memory_does_not_grow_with_the_archive(suffix: str) -> None:
    """50 MiB in packed form, of random lines, which no format makes smaller than that."""
    chosen = random.Random(5)
    lines = [chosen.randbytes(10_000).replace(b"\n", b" ") for _ in range(105)]
    member = PACK[suffix](b"\n".join([*lines, b""]))
    copies, name = 50, f"a.{suffix}"
    size = copies * len(member)
    assert size > 50 * MIB
    ends: list[int] = []

    def batches() -> Iterator[pyarrow.RecordBatch]:
        left = b""
        for number in range(copies):
            *rows, left = (left + member).split(b"\n")
            if number == copies - 1:
                rows.append(left)
            yield batch_of([(row, name, size) for row in rows])
            ends.append(pyarrow.total_allocated_bytes())

    before = pyarrow.total_allocated_bytes()
    tracemalloc.start()
    try:
        _, file = next(packed_files(batches()))
        count = 0
        for block in read_log(name, file, MIB):
            count += bytes(block).count(b"\n") + 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == copies * len(lines)
    assert peak < 20 * MIB
    assert max(ends) - before < 20 * MIB


def test_spark_gives_bytes_of_files_without_loading_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    chosen = random.Random(7)
    files = {
        name: chosen.randbytes(300_000) + ending
        for name, ending in (
            ("a[1] *.gz", b"\n"), ("b.GZ", b"a"), ("c.bz2", b"\n\n"), ("d.xz", b"\r\n"),
            ("e.zst", b"\n"), ("f.zstd", b""), ("\u00fc.zst.xz", b""),
        )
    }  # fmt: skip
    files["no line feed.gz"] = b"a" * (ROW_BYTES_MAX + 1) + b"\nb"
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    settings = {
        # A row that is a whole file is an error now.
        "spark.sql.sources.binaryFile.maxLength": "1000",
        "spark.sql.files.maxPartitionBytes": "65536b",
    }
    before = {name: str(spark.conf.get(name)) for name in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        uris = [f"file:{tmp_path}/{name}" for name in files]
        table = packed_rows(spark, uris).toArrow()
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
    found = {}
    for uri, packed in packed_files(table.to_batches()):
        if "feed" in uri:
            with pytest.raises(OSError, match="bytes of the packed file are missing"):
                packed.read()
            continue
        found[uri.rpartition("/")[2]] = packed.read()
    assert sorted(found.values()) == sorted(
        data for name, data in files.items() if "feed" not in name
    )
