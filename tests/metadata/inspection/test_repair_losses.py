"""The losses that a repair reports, and the batches that are found in damaged files."""

from pathlib import Path

import pytest

from authorizerd.acl.index.builder import build
from authorizerd.metadata.inspection.repair_losses import (
    ACLS_REPORTED_MAX,
    WINDOW_SIZE,
    Losses,
    LostRegion,
    find_batch,
    find_losses,
    scan_batches,
)
from authorizerd.protocol.records.metadata import MetadataRecord
from tests.metadata.stored_files import StoredFiles
from tests.support.log_files import added, data_batch, flipped, removed

PATH = Path("/log/00000000000000000003.log")
KEPT = build([added(1), added(2)])
FIRST = data_batch(3, [added(3)])
SIZE = len(FIRST)


def losses(*batches: bytes, position: int = 0, from_offset: int = 0) -> Losses:
    storage = StoredFiles({PATH: b"".join(batches)})
    return find_losses([LostRegion(PATH, position, from_offset)], KEPT, 3, storage)


@pytest.mark.parametrize(
    ("records", "removed_acls", "returned_acls"),
    [
        ([added(3), removed(1)], {3}, {1}),
        ([added(3), removed(3)], set(), set()),
        ([removed(1), added(1)], set(), set()),
        ([removed(9)], set(), set()),
        ([added(1, added(7).acl)], {1}, set()),
    ],
)
def test_lost_changes_are_summed_up_by_acl(
    records: list[MetadataRecord], removed_acls: set[int], returned_acls: set[int]
) -> None:
    """The report compares the state after all lost changes with the state that is left."""
    found = losses(data_batch(3, records))
    assert {int.from_bytes(each) for each in found.removed} == removed_acls
    assert {int.from_bytes(each) for each in found.returned} == returned_acls
    count = len(records)
    assert (found.first_offset, found.last_offset, found.records) == (3, 2 + count, count)


@pytest.mark.parametrize("start", [{"from_offset": 4}, {"position": SIZE}])
def test_records_in_a_checkpoint_or_before_the_cut_are_not_lost(start: dict[str, int]) -> None:
    found = losses(FIRST, data_batch(4, [added(4)]), **start)
    assert (found.records, found.last_offset, len(found.removed)) == (1, 4, 1)


def test_unreadable_bytes_are_counted() -> None:
    damaged = losses(flipped(FIRST, 70), FIRST)
    assert (damaged.unreadable_bytes, damaged.records) == (SIZE, 1)
    for rest in (b"\1", bytes(30), FIRST[:-1], data_batch(4, [b"\1\x12\0"])):
        assert losses(FIRST, rest).unreadable_bytes == len(rest)


def test_report_has_a_maximum_number_of_acls() -> None:
    count = ACLS_REPORTED_MAX + 5
    *_, last = losses(data_batch(3, [added(10 + n) for n in range(count)])).lines()
    assert last == "would be gone: 5 more ACLs"


@pytest.mark.parametrize(
    ("start", "sizes"), [(0, [None, SIZE, None, 2 * SIZE]), (2 * SIZE, [None, 2 * SIZE])]
)
def test_scan_continues_after_a_damaged_batch(start: int, sizes: list[int | None]) -> None:
    """The scan ends only at a wrong length, which hides where the next batch begins."""
    content = FIRST + flipped(FIRST, 70) + FIRST + flipped(FIRST, 8) + FIRST
    found = scan_batches(PATH, start, StoredFiles({PATH: content}))
    assert [each if isinstance(each, int) else None for each in found] == sizes


@pytest.mark.parametrize("size", [0, 7, WINDOW_SIZE - 4, WINDOW_SIZE, WINDOW_SIZE + 3])
def test_batch_is_found_wherever_it_begins(size: int) -> None:
    """This holds for a batch across two reads, and after other bytes that equal its offset."""
    storage = StoredFiles({PATH: (3).to_bytes(8, "big") + b"x" * size + FIRST})
    assert find_batch(storage, PATH, 0, 3) == 8 + size
    assert find_batch(storage, PATH, 9 + size, 3) is None
    assert find_batch(storage, PATH, 0, 4) is None
