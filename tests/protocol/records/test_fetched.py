"""The batches in an answer to a Fetch."""

import pytest

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import decode_batch
from authorizerd.protocol.records.fetched import read_fetched_batches
from tests.support.log_files import added, data_batch, flipped

FIRST, SECOND = data_batch(0, [added(1)]), data_batch(1, [added(2), added(3)])


def test_records_that_are_cut_anywhere_give_the_complete_batches() -> None:
    """A leader cuts off the last batch at its limit of bytes, but never the first."""
    data = FIRST + SECOND
    whole = [decode_batch(FIRST), decode_batch(SECOND)]
    assert [*read_fetched_batches(b"")] == []
    for size in range(1, len(data) + 1):
        if size < len(FIRST):
            with pytest.raises(DecodeError, match="the first batch"):
                [*read_fetched_batches(data[:size])]
        else:
            complete = 1 + (size == len(data))
            assert [*read_fetched_batches(bytearray(data[:size]))] == whole[:complete]


def test_a_damaged_batch_is_rejected() -> None:
    """Also behind valid ones."""
    for position in (16, 17, len(SECOND) - 1):  # the magic, the CRC, a record
        with pytest.raises(DecodeError):
            [*read_fetched_batches(FIRST + flipped(SECOND, position))]


def test_each_batch_is_read_only_when_it_is_wanted() -> None:
    """So other tasks can run between two of them."""
    batches = read_fetched_batches(FIRST + flipped(SECOND, len(SECOND) - 1))
    next(batches)
    with pytest.raises(DecodeError):
        next(batches)
