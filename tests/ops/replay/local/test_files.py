from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow
import pytest

from authorizerd.replay.ingest.parse.event import Reason
from authorizerd.replay.ingest.parse.logs import DamagedArchiveError
from authorizerd.replay.local import files as files_module
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.files import LogReader, find_copies, find_logs
from tests.ops.replay.sessions import LOCAL

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".3": bytes, ".GZ": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
    ".zst": lambda data: bytes(pyarrow.compress(data, codec="zstd", asbytes=True)),
}  # fmt: skip
LINES = [b"line %d" % number for number in range(200_000)]


def read(path: Path) -> tuple[list[bytes], list[Reason], str]:
    reader = LogReader(path)
    lines: list[bytes] = []
    faults: list[Reason] = []
    try:
        for some in reader.lines():
            lines += some
    except DamagedArchiveError:
        faults.append(Reason.BROKEN_ARCHIVE)
    assert reader.file.path == str(path)
    return lines, faults, f"{reader.file.bytes} {reader.file.sha256}"


def digest(data: bytes) -> str:
    return f"{len(data)} {hashlib.sha256(data).hexdigest()}"


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_every_kind_of_file_gives_the_same_lines(
    suffix: str, ending: bytes, tmp_path: Path
) -> None:
    packed = PACK[suffix](b"\n".join(LINES) + ending)
    path = tmp_path / f"audit.log{suffix}"
    path.write_bytes(packed)
    assert read(path) == (LINES, [], digest(packed))


def test_bytes_after_an_archive_count_for_its_digest(tmp_path: Path) -> None:
    packed = lzma.compress(b"a\n") + b"more" * 1_000_000
    path = tmp_path / "a.xz"
    path.write_bytes(packed)
    assert read(path) == ([b"a"], [Reason.BROKEN_ARCHIVE], digest(packed))


def test_damaged_archive_keeps_earlier_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"\n".join(LINES))[:-9])
    lines, faults, _ = read(path)
    assert lines == LINES[: len(lines)]
    assert faults == [Reason.BROKEN_ARCHIVE]


def test_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"a\nb\n",))
    writer.start()
    assert read(path) == ([b"a", b"b"], [], digest(b"a\nb\n"))
    writer.join()


def test_zstandard_without_pyarrow_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "a.zst"
    path.write_bytes(b"any")
    with pytest.raises(TrafficError, match=r"a\.zst: unpacking .zst needs pyarrow: install"):
        read(path)


def test_directory_yields_what_an_ingest_reads(tmp_path: Path) -> None:
    for name in ("b.log", "a/2.log", "a/1.log.gz", "_x", ".y", "z._COPYING_", "_a/1.log", "c"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    found = find_logs([str(tmp_path), str(tmp_path / "c")])
    assert [str(path.relative_to(tmp_path)) for path in found] == [
        *("a/1.log.gz", "a/2.log", "b.log", "c")
    ]


@pytest.mark.parametrize(("name", "message"), [
    ("missing.log", "missing.log: No such file or directory"),
    ("empty", "empty: no files found (names that begin with _ or . are skipped)"),
    ("logs.tar.gz", "logs.tar.gz: this archive format is not supported: unpack the file first"),
    ("events", "events/1.parquet: expected an audit log, found Parquet: use Spark"),
    ("device", "device: expected a file or a pipe"),
])  # fmt: skip
def test_unusable_path_is_named(name: str, message: str, tmp_path: Path) -> None:
    for folder in ("empty", "events"):
        (tmp_path / folder).mkdir()
    (tmp_path / "logs.tar.gz").touch()
    (tmp_path / "events" / "1.parquet").touch()
    (tmp_path / "device").symlink_to("/dev/null")
    with pytest.raises(TrafficError) as raised:
        find_logs([str(tmp_path / name)])
    assert f"{tmp_path}/{message}" in str(raised.value)


def test_too_many_files_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "FILES_MAX", 2)
    for name in "abc":
        (tmp_path / name).touch()
    with pytest.raises(TrafficError, match=r"more than 2 files: use Spark: run authorizerd replay"):
        find_logs([str(tmp_path)])


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.touch()
    reader = LogReader(path)
    path.unlink()
    with pytest.raises(TrafficError, match=r"a\.log: No such file"):
        list(reader.lines())


@pytest.mark.parametrize("text", ["link/..", "link/../b.log", "link/../../logs/b.log", "logs"])
def test_logs_are_those_that_an_ingest_finds(tmp_path: Path, text: str) -> None:
    """A path with ``..`` behind a link continues above the link's target."""
    from authorizerd.replay.ingest.inputs import find_inputs

    (tmp_path / "logs/old").mkdir(parents=True)
    (tmp_path / "logs/b.log").touch()
    (tmp_path / "b.log").touch()
    (tmp_path / "link").symlink_to("logs/old")
    found = [f"file:{path}" for path in find_logs((f"{tmp_path}/{text}",))]
    assert found == [file.uri for file in find_inputs(LOCAL, (f"{tmp_path}/{text}",))]
    assert found == [f"file:{tmp_path}/logs/b.log"]


COPIED = [
    f"[2026-11-21 16:26:{second:02d},123] INFO Principal = User:a is Denied {'x' * 9}"
    for second in range(6)
]
HEADER = "a header of every log"


def text_of(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


WHOLE = text_of(*COPIED)
CASES = {
    "a packed copy": ({"a.log": WHOLE, "a.log.gz": gzip.compress(WHOLE)}, {"a.log.gz": "a.log"}),
    "a copy with other blank lines": (
        {"a": WHOLE, "b": WHOLE.replace(b"\n", b"\r\n\n")},
        {"b": "a"},
    ),
    "a log before it grew": ({"a": text_of(*COPIED[:4]), "b": WHOLE}, {"a": "b"}),
    "a log after it grew": ({"a": WHOLE, "b": text_of(*COPIED[:4])}, {"b": "a"}),
    "a log whose last line was being written": ({"a": WHOLE, "b": WHOLE[:-9]}, {"b": "a"}),
    "the same before the other": ({"a": WHOLE[:-9], "b": WHOLE}, {"a": "b"}),
    "three stages of a log": (
        {"a": text_of(*COPIED[:4]), "b": text_of(*COPIED[:2]), "c": WHOLE},
        {"b": "a", "a": "c"},
    ),
    "two logs that begin alike": (
        {"a": text_of(*COPIED[:4], COPIED[5]), "b": WHOLE, "c": text_of(*COPIED[:3])},
        {"c": "a"},
    ),
    "a log that lacks a line": ({"a": WHOLE, "b": text_of(COPIED[0], *COPIED[2:])}, {}),
    "a shorter line in the middle": (
        {"a": WHOLE, "b": text_of(COPIED[0], COPIED[1][:-1], *COPIED[2:])},
        {},
    ),
    "the middle of a log": ({"a": WHOLE, "b": text_of(*COPIED[2:4])}, {}),
    "only equal headers": (
        {"a": text_of(HEADER, COPIED[0]), "b": text_of(HEADER, COPIED[1]), "c": text_of(HEADER)},
        {},
    ),
}


@pytest.mark.parametrize(("logs", "expected"), CASES.values(), ids=CASES)
def test_copies_are_logs_with_whose_lines_another_begins(
    logs: Mapping[str, bytes], expected: Mapping[str, str], tmp_path: Path
) -> None:
    for name, content in logs.items():
        (tmp_path / name).write_bytes(content)
    found = find_copies([tmp_path / name for name in logs])
    assert {path.name: other.name for path, other in found.items()} == expected


def test_pipes_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    assert find_copies([tmp_path / "a"]) == {}
