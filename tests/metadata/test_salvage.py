"""Batches in a damaged file: those that are whole are found, wherever they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.metadata.salvage import WINDOW_SIZE, find_batch, scan_batches
from tests.metadata.stored_files import StoredFiles
from tests.support.log_files import added, data_batch, flipped

PATH = Path("/log/00000000000000000003.log")
FIRST = data_batch(3, [added(3)])


def test_batches_are_read_past_damage() -> None:
    """A batch that is damaged counts by its length; behind a length that lies nothing is read."""
    storage = StoredFiles({PATH: FIRST + flipped(FIRST, 70) + FIRST + flipped(FIRST, 8) + FIRST})
    size = len(FIRST)
    for start, sizes in ((0, [None, size, None, 2 * size]), (2 * size, [None, 2 * size])):
        read = list(scan_batches(PATH, start, storage))
        assert [each if isinstance(each, int) else None for each in read] == sizes


@pytest.mark.parametrize("size", [0, 7, WINDOW_SIZE - 4, WINDOW_SIZE, WINDOW_SIZE + 3])
def test_a_batch_is_found_wherever_it_begins(size: int) -> None:
    """Behind its own offset standing elsewhere, across the pieces that a file is read in."""
    storage = StoredFiles({PATH: (3).to_bytes(8, "big") + b"x" * size + FIRST})
    assert find_batch(storage, PATH, 0, 3) == 8 + size
    assert find_batch(storage, PATH, 9 + size, 3) is None
    assert find_batch(storage, PATH, 0, 4) is None
