"""A message in chunks: nothing is lost between them, and none grows with it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.kafka.chunked_output import CHUNK_BYTES, LazyItems, Output
from authorizerd.protocol.kafka.step_sizes import ITEMS_PER_STEP


@given(st.lists(st.binary(max_size=CHUNK_BYTES // 4) | st.just(b"x" * (CHUNK_BYTES + 1))))
def test_the_pieces_are_all_that_was_written(parts: list[bytes]) -> None:
    """In order; each is of some ``CHUNK_BYTES``, or one part that is larger by itself."""
    output = Output()
    for part in parts:
        output.add(part)
    chunks = output.finish()
    assert b"".join(chunks) == b"".join(parts)
    assert all(len(chunk) < 2 * CHUNK_BYTES + 1 for chunk in chunks)
    assert all(len(chunk) >= CHUNK_BYTES for chunk in chunks[:-1])


def test_a_step_ends_after_so_many_items() -> None:
    """However deep they stand."""
    output = Output()
    ends = [output.ends_step() for _ in range(3 * ITEMS_PER_STEP)]
    assert [number for number, is_end in enumerate(ends, 1) if is_end] == [
        ITEMS_PER_STEP, 2 * ITEMS_PER_STEP, 3 * ITEMS_PER_STEP
    ]  # fmt: skip


def test_items_are_made_as_they_are_asked_for() -> None:
    """None before, and each time anew."""
    made: list[int] = []

    def make(number: int) -> str:
        made.append(number)
        return str(number)

    items = LazyItems(make, [1, 2, 3])
    assert (len(items), made) == (3, [])
    remaining = iter(items)
    assert (next(remaining), made) == ("1", [1])
    assert list(items) == ["1", "2", "3"]
