"""Recovery may refuse only certain contents."""

import pytest

from tests.faults.verdicts import batch_starts, may_stop, next_offset, whole_size
from tests.support.log_files import added, data_batch

SMALL = data_batch(0, [added(0)])
LARGE = data_batch(1, [b"\1\2\0" + b"x" * 2000])
LAST = data_batch(2, [added(1)])
WRITTEN = SMALL + LARGE + LAST
END = len(SMALL + LARGE)


def with_zeros(start: int, end: int, data: bytes = WRITTEN) -> bytes:
    return data[:start] + bytes(end - start) + data[end:]


def test_batches_are_found_by_their_lengths() -> None:
    """A cut last batch is found too, but it does not count for the next offset."""
    assert batch_starts(WRITTEN[:-1]) == [0, len(SMALL), END]
    assert next_offset(WRITTEN) == 3
    assert whole_size(WRITTEN[:-1], WRITTEN) == END
    assert whole_size(with_zeros(600, 700), WRITTEN) == len(SMALL)


def test_torn_tail_must_be_accepted() -> None:
    """The tail is complete, is cut at any byte, ends in zeros, or has one unwritten sector."""
    contents = [
        WRITTEN,
        *(WRITTEN[:size] for size in range(0, len(WRITTEN), 7)),
        *(WRITTEN[:size].ljust(len(WRITTEN), b"\0") for size in range(512, END, 512)),
        with_zeros(len(SMALL), 512),
        with_zeros(len(SMALL), 1024),
        with_zeros(1024, 1536, SMALL + LARGE),
    ]
    for number, content in enumerate(contents):
        assert not may_stop(content, WRITTEN if len(content) != END else SMALL + LARGE), number


@pytest.mark.parametrize(
    "content",
    [
        with_zeros(1024, 1536),
        with_zeros(512, 1024),
        with_zeros(END - 5, END, SMALL + LARGE),
        with_zeros(0, 512),
    ],
)
def test_tail_that_looks_like_damage_may_be_refused(content: bytes) -> None:
    """The zeros precede another batch, are only a few bytes, or fill the file's first sector."""
    assert may_stop(content, WRITTEN if len(content) != END else SMALL + LARGE)
