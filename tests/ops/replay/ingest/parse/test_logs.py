import bz2
import gzip
import lzma
import sys
import zlib
from collections.abc import Callable
from io import BytesIO
from itertools import pairwise

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.audit.recorded.event import LINE_BYTES_MAX
from authorizerd.replay.ingest.parse import logs
from authorizerd.replay.ingest.parse.logs import DamagedArchiveError, read_log, read_part
from tests.support.programs import output_of


def zstd(data: bytes) -> bytes:
    return bytes(pyarrow.compress(data, codec="zstd", asbytes=True))


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd,
}
LINES = [b"line %d of the log" % number for number in range(30_000)]
TEXTS = st.lists(st.sampled_from((b"a", b"bc", b"\n", b"\n\n", b"\r\n")), max_size=20).map(b"".join)
DAMAGED: tuple[list[bytes], bytes] = ([], b"")


def read(name: str, packed: bytes) -> tuple[list[bytes], bytes | None]:
    """Return the lines of a log, and the unfinished line before the damage of an archive."""
    lines: list[bytes] = []
    try:
        for block in read_log(name, BytesIO(packed)):
            lines += bytes(block).split(b"\n")
    except DamagedArchiveError as damage:
        return lines, damage.line
    return lines, None


@given(TEXTS, st.lists(st.integers(0, 40), max_size=4), st.integers(4, 12))
def test_parts_of_a_file_give_each_line_once_or_its_beginning(
    data: bytes, cuts: list[int], block_bytes: int
) -> None:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    file, longest = BytesIO(data), 3
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(logs, "LINE_BYTES_MAX", longest)
        patched.setattr(logs, "BLOCK_BYTES", block_bytes)
        patched.setattr(logs, "_SEARCHED_BYTES", block_bytes)
        parts = [list(read_part(file, begin, end)) for begin, end in pairwise(places)]
    found = [line for part in parts for block in part for line in bytes(block).split(b"\n")]
    *lines, last = data.split(b"\n")
    expected = [*lines, last] if last else lines
    assert [line[: longest + 1] for line in found] == [line[: longest + 1] for line in expected]
    assert all(len(line) <= longest + 1 + block_bytes for line in found)


def test_file_that_has_become_shorter_ends_early() -> None:
    assert list(read_part(BytesIO(b"a\n"), 0, 4)) == [b"a"]


@pytest.mark.parametrize("suffix", ["log", *PACK])
@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_lines_equal_the_original(suffix: str, ending: bytes) -> None:
    pack = PACK.get(suffix, bytes)
    packed = pack(b"\n".join(LINES[:20_000]) + b"\n") + pack(b"\n".join(LINES[20_000:]) + ending)
    assert read(f"a.{suffix}", packed) == (LINES, None)


def test_lines_of_an_archive_come_in_large_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PIECE_BYTES", 10)
    packed = BytesIO(gzip.compress(b"0123456\n" * 20))
    assert [bytes(block).count(b"\n") + 1 for block in read_log("a.gz", packed, 60)] == [7, 8, 5]


@pytest.mark.parametrize("suffix", PACK)
def test_damaged_archive_keeps_earlier_lines(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PIECE_BYTES", 1_000)
    lines, unfinished = read(f"a.{suffix}", PACK[suffix](b"\n".join(LINES) + b"\n")[:-40])
    assert lines == LINES[: len(lines)]
    assert unfinished is not None
    assert (LINES[len(lines)] if len(lines) < len(LINES) else b"").startswith(unfinished)


@pytest.mark.parametrize("suffix", PACK)
def test_file_that_is_not_an_archive_is_damaged(suffix: str) -> None:
    assert read(f"a.{suffix}", b"no archive at all") == DAMAGED


def test_xz_file_whose_dictionary_takes_gigabytes_is_not_unpacked() -> None:
    packed = bytearray(lzma.compress(b"a line\n"))
    # The block header: its size in words of 4 bytes, ..., the dictionary's size (3 GiB), its CRC.
    end = 12 + (packed[12] + 1) * 4
    assert read("a.xz", bytes(packed)) == ([b"a line"], None)
    packed[16] = 39
    packed[end - 4 : end] = zlib.crc32(packed[12 : end - 4]).to_bytes(4, "little")
    assert read("a.xz", bytes(packed)) == DAMAGED


@pytest.mark.parametrize(("window", "expected"), [(0, ([b"a line"], None)), (21, DAMAGED)])
def test_zstandard_file_whose_window_takes_gigabytes_is_not_unpacked(
    window: int, expected: tuple[list[bytes], bytes | None]
) -> None:
    """The header asks for 2 ** (10 + window) bytes."""
    block = (7 << 3 | 1).to_bytes(3, "little") + b"a line\n"  # the last one, and not compressed
    packed = b"\x28\xb5\x2f\xfd" + bytes([0, window << 3]) + block
    assert read("a.zst", packed) == expected


@pytest.mark.parametrize("padding", [0, 4, 2 * logs.PIECE_BYTES])
def test_padding_between_and_after_xz_streams_is_skipped(padding: int) -> None:
    zeros = bytes(padding)
    packed = lzma.compress(b"1\n2") + zeros + lzma.compress(b"3\n") + zeros
    assert read("a.xz", packed) == ([b"1", b"23"], None)


def test_other_data_after_an_xz_stream_is_damage() -> None:
    assert read("a.xz", lzma.compress(b"1\n") + b"no archive at all") == ([b"1"], b"")


def test_endless_line_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PIECE_BYTES", 1_000)
    packed = gzip.compress(b"a" * 8 * LINE_BYTES_MAX + b"\nb\n")
    (block,) = read_log("a.gz", BytesIO(packed), LINE_BYTES_MAX)
    long, short = bytes(block).split(b"\n")
    assert LINE_BYTES_MAX < len(long) <= 2 * LINE_BYTES_MAX
    assert short == b"b"


def test_archives_are_read_without_numpy() -> None:
    """An executor of a cluster needs pyarrow, which does not need numpy."""
    code = (
        "import gzip, io, sys; sys.modules['numpy'] = None\n"
        "from datetime import UTC\n"
        "from authorizerd.replay.ingest.parse.columns import EventReader\n"
        "from authorizerd.replay.ingest.parse.logs import read_log\n"
        "blocks = read_log('a.gz', io.BytesIO(gzip.compress(b'a\\nb\\n')))\n"
        "(rows,) = EventReader(UTC, 'auto').read_blocks(blocks)\n"
        "print(rows['line'].to_pylist())"
    )
    assert output_of(sys.executable, "-c", code) == "[b'a', b'b']\n"
