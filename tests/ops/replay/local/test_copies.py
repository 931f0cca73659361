from __future__ import annotations

import gzip
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from authorizerd.replay.local.copies import find_copies

LINES = [
    f"[2026-11-21 16:26:{second:02d},123] INFO Principal = User:a is Denied {'x' * 9}"
    for second in range(6)
]
HEADER = "a header of every log"


def text_of(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


WHOLE = text_of(*LINES)
CASES = {
    "a packed copy": ({"a.log": WHOLE, "a.log.gz": gzip.compress(WHOLE)}, {"a.log.gz": "a.log"}),
    "a copy with other blank lines": (
        {"a": WHOLE, "b": WHOLE.replace(b"\n", b"\r\n\n")},
        {"b": "a"},
    ),
    "a log before it grew": ({"a": text_of(*LINES[:4]), "b": WHOLE}, {"a": "b"}),
    "a log after it grew": ({"a": WHOLE, "b": text_of(*LINES[:4])}, {"b": "a"}),
    "a log whose last line was being written": ({"a": WHOLE, "b": WHOLE[:-9]}, {"b": "a"}),
    "the same before the other": ({"a": WHOLE[:-9], "b": WHOLE}, {"a": "b"}),
    "three stages of a log": (
        {"a": text_of(*LINES[:4]), "b": text_of(*LINES[:2]), "c": WHOLE},
        {"b": "a", "a": "c"},
    ),
    "two logs that begin alike": (
        {"a": text_of(*LINES[:4], LINES[5]), "b": WHOLE, "c": text_of(*LINES[:3])},
        {"c": "a"},
    ),
    "a log that lacks a line": ({"a": WHOLE, "b": text_of(LINES[0], *LINES[2:])}, {}),
    "a shorter line in the middle": (
        {"a": WHOLE, "b": text_of(LINES[0], LINES[1][:-1], *LINES[2:])},
        {},
    ),
    "the middle of a log": ({"a": WHOLE, "b": text_of(*LINES[2:4])}, {}),
    "only equal headers": (
        {"a": text_of(HEADER, LINES[0]), "b": text_of(HEADER, LINES[1]), "c": text_of(HEADER)},
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
