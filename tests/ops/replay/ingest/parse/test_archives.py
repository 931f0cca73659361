from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
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


def test_xz_file_whose_dictionary_takes_gigabytes_is_not_unpacked() -> None:
    packed = bytearray(lzma.compress(b"a line\n"))
    # The block header: its size in words of 4 bytes, ..., the dictionary's size (3 GiB), its CRC.
    end = 12 + (packed[12] + 1) * 4
    assert unpacked("a.xz", bytes(packed)) == ([b"a line"], [None])
    packed[16] = 39
    packed[end - 4 : end] = zlib.crc32(packed[12 : end - 4]).to_bytes(4, "little")
    assert unpacked("a.xz", bytes(packed)) == ([b""], [Reason.BROKEN_ARCHIVE])


@pytest.mark.parametrize(
    ("window", "expected"), [(0, ([b"a line"], [None])), (21, ([b""], [Reason.BROKEN_ARCHIVE]))]
)
def test_zstandard_file_whose_window_takes_gigabytes_is_not_unpacked(
    window: int, expected: tuple[list[bytes], list[Reason | None]]
) -> None:
    """The header asks for 2 ** (10 + window) bytes."""
    block = (7 << 3 | 1).to_bytes(3, "little") + b"a line\n"  # the last one, and not compressed
    packed = b"\x28\xb5\x2f\xfd" + bytes([0, window << 3]) + block
    assert unpacked("a.zst", packed) == expected


@pytest.mark.parametrize("padding", [0, 4, 2 * archives.PIECE_BYTES])
def test_padding_between_and_after_xz_streams_is_skipped(padding: int) -> None:
    zeros = bytes(padding)
    packed = lzma.compress(b"1\n2") + zeros + lzma.compress(b"3\n") + zeros
    lines, faults = unpacked("a.xz", packed)
    assert (lines, set(faults)) == ([b"1", b"23"], {None})


def test_other_data_after_an_xz_stream_is_damage() -> None:
    lines, faults = unpacked("a.xz", lzma.compress(b"1\n") + b"no archive at all")
    assert (lines, faults[-1]) == ([b"1", b""], Reason.BROKEN_ARCHIVE)


def test_endless_line_is_not_kept_in_memory() -> None:
    packed = gzip.compress(b"a" * 8 * LINE_BYTES_MAX + b"\nb\n")
    lines, _ = unpacked("a.gz", packed)
    assert len(lines[0]) > LINE_BYTES_MAX
    assert len(lines[0]) <= LINE_BYTES_MAX + 1 + archives.PIECE_BYTES
    assert lines[1:] == [b"b"]
