from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from io import BytesIO

import pyarrow
import pytest

from authorizerd.replay.ingest.parse import archives
from authorizerd.replay.ingest.parse.archives import unpack_lines
from authorizerd.replay.ingest.parse.event import LINE_BYTES_MAX, Reason


def zstd(data: bytes) -> bytes:
    return bytes(pyarrow.compress(data, codec="zstd", asbytes=True))


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd,
}
LINES = [b"line %d of the log" % number for number in range(30_000)]


def unpacked(name: str, packed: bytes) -> tuple[list[bytes], list[Reason | None]]:
    lines: list[bytes] = []
    faults: list[Reason | None] = []
    for some, fault in unpack_lines(name, BytesIO(packed)):
        lines += some
        faults.append(fault)
    return lines, faults


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_unpacked_lines_equal_the_original(suffix: str, ending: bytes) -> None:
    packed = PACK[suffix](b"\n".join(LINES[:20_000]) + b"\n")
    packed += PACK[suffix](b"\n".join(LINES[20_000:]) + ending)
    lines, faults = unpacked(f"a.log.{suffix}", packed)
    assert lines == LINES
    assert set(faults) == {None}


@pytest.mark.parametrize("suffix", PACK)
def test_damaged_archive_keeps_earlier_lines(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "PIECE_BYTES", 1_000)
    packed = PACK[suffix](b"\n".join(LINES) + b"\n")
    lines, faults = unpacked(f"a.{suffix}", packed[:-40])
    assert lines[:-1] == LINES[: len(lines) - 1]
    assert faults[-1] is Reason.BROKEN_ARCHIVE
    assert set(faults[:-1]) <= {None}


@pytest.mark.parametrize("suffix", PACK)
def test_file_that_is_not_an_archive_is_one_fault(suffix: str) -> None:
    assert unpacked(f"a.{suffix}", b"no archive at all") == ([b""], [Reason.BROKEN_ARCHIVE])


def test_endless_line_is_not_kept_in_memory() -> None:
    packed = gzip.compress(b"a" * 8 * LINE_BYTES_MAX + b"\nb\n")
    lines, _ = unpacked("a.gz", packed)
    assert len(lines[0]) > LINE_BYTES_MAX
    assert len(lines[0]) <= LINE_BYTES_MAX + 1 + archives.PIECE_BYTES
    assert lines[1:] == [b"b"]
