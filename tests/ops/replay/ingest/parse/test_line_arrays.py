from __future__ import annotations

import gzip
import io
import subprocess
import sys
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.ingest.parse import archives, line_arrays
from authorizerd.replay.ingest.parse.line_arrays import read_archive, read_part

TEXTS = st.lists(st.sampled_from((b"a", b"bc", b"\n", b"\n\n", b"\r\n")), max_size=20).map(b"".join)


LINE_BYTES_MAX = 3


@given(TEXTS, st.lists(st.integers(0, 40), max_size=4), st.integers(LINE_BYTES_MAX + 1, 12))
def test_parts_of_a_file_give_each_line_once_or_its_beginning(
    data: bytes, cuts: list[int], piece_bytes: int
) -> None:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    file = io.BytesIO(data)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(line_arrays, "LINE_BYTES_MAX", LINE_BYTES_MAX)
        patched.setattr(line_arrays, "PIECE_BYTES", piece_bytes)
        patched.setattr(line_arrays, "_SEARCHED_BYTES", piece_bytes)
        parts = [list(read_part(file, begin, end)) for begin, end in pairwise(places)]
    *lines, last = data.split(b"\n")
    expected = [line[: LINE_BYTES_MAX + 1] for line in ([*lines, last] if last else lines)]
    assert [line for lines in chain(*parts) for line in lines.to_pylist()] == expected


@given(TEXTS, st.integers(1, 8))
def test_byte_order_mark_is_not_part_of_the_first_line(data: bytes, cut: int) -> None:
    file = io.BytesIO(archives.BYTE_ORDER_MARK + data)
    places = ((0, cut), (cut, max(cut, len(data) + 3)))
    parts = [list(read_part(file, begin, end)) for begin, end in places]
    expected = list(read_part(io.BytesIO(data), 0, len(data)))
    lines, others = ([line for lines in some for line in lines.to_pylist()] for some in (
        chain(*parts), expected,
    ))  # fmt: skip
    assert lines == others


def test_file_that_has_become_shorter_ends_early() -> None:
    assert [lines.to_pylist() for lines in read_part(io.BytesIO(b"a\n"), 0, 4)] == [[b"a"]]


@pytest.mark.parametrize(("kept", "reason"), [(None, None), (-9, "broken_archive")])
def test_lines_of_an_archive_come_in_large_arrays(
    monkeypatch: pytest.MonkeyPatch, kept: int | None, reason: str | None
) -> None:
    monkeypatch.setattr(archives, "LINES_MAX", 2)
    monkeypatch.setattr(line_arrays, "PIECE_BYTES", 60)
    lines = [b"line %d" % number for number in range(20)]
    packed = io.BytesIO(gzip.compress(b"\n".join(lines) + b"\n")[:kept])
    *arrays, last = read_archive("a.gz", packed)
    if reason is None:
        arrays.append(last)
    else:
        assert last["reason"].to_pylist() == [reason]
    assert [line for array in arrays for line in array.to_pylist()] == lines
    assert [len(array) for array in arrays] == [6, 6, 6, 2]


def test_archives_are_read_without_numpy() -> None:
    """An executor of a cluster needs pyarrow, which does not need numpy."""
    code = (
        "import gzip, io, sys; sys.modules['numpy'] = None\n"
        "from authorizerd.replay.ingest.parse.line_arrays import read_archive\n"
        "print([*read_archive('a.gz', io.BytesIO(gzip.compress(b'a\\nb')))][0].to_pylist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[b'a', b'b']\n", done.stderr
