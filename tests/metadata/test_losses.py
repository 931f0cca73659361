"""What a repair takes away, told: by what is left, and as far as it can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.acl.builder import build
from authorizerd.metadata.losses import ACLS_TOLD_MAX, Losses, LostRegion, find_losses
from authorizerd.protocol.records.metadata import MetadataRecord
from tests.metadata.stored_files import StoredFiles
from tests.support.log_files import added, data_batch, flipped, removed

PATH = Path("/log/00000000000000000003.log")
KEPT = build([added(1), added(2)])
FIRST = data_batch(3, [added(3)])


def losses(*batches: bytes, position: int = 0, from_offset: int = 0) -> Losses:
    storage = StoredFiles({PATH: b"".join(batches)})
    return find_losses([LostRegion(PATH, position, from_offset)], KEPT, 3, storage)


@pytest.mark.parametrize(
    ("records", "gone", "back"),
    [
        ([added(3), removed(1)], {3}, {1}),
        ([added(3), removed(3)], set(), set()),
        ([removed(1), added(1)], set(), set()),
        ([removed(9)], set(), set()),
        ([added(1, added(7).acl)], {1}, set()),
    ],
)
def test_acls_go_or_come_back(
    records: list[MetadataRecord], gone: set[int], back: set[int]
) -> None:
    """By what all the lost changes together would have made of those that are left."""
    found = losses(data_batch(3, records))
    assert {int.from_bytes(each) for each in found.gone} == gone
    assert {int.from_bytes(each) for each in found.back} == back
    assert (found.first_offset, found.last_offset, found.records) == (
        3,
        2 + len(records),
        len(records),
    )


def test_what_a_checkpoint_holds_is_not_lost() -> None:
    """Records before the cut are not lost either."""
    second = data_batch(4, [added(4)])
    for found in (losses(FIRST, second, from_offset=4), losses(FIRST, second, position=len(FIRST))):
        assert (found.records, found.last_offset, len(found.gone)) == (1, 4, 1)


def test_what_cannot_be_read_is_counted() -> None:
    """A batch by its length, all the rest where there is none that can be."""
    damaged = flipped(FIRST, 70)
    assert losses(damaged, FIRST).unreadable_bytes == len(FIRST)
    assert losses(damaged, FIRST).records == 1
    for rest in (b"\1", bytes(30), FIRST[:-1], data_batch(4, [b"\1\x12\0"])):
        assert losses(FIRST, rest).unreadable_bytes == len(rest)


def test_many_acls_are_told_by_their_number() -> None:
    """A summary stays readable."""
    count = ACLS_TOLD_MAX + 5
    *_, last = losses(data_batch(3, [added(10 + n) for n in range(count)])).lines()
    assert last == "would be gone: 5 more ACLs"
