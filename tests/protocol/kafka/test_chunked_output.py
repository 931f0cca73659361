"""A message in chunks."""

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.kafka.chunked_output import CHUNK_BYTES, ITEMS_PER_STEP, LazyItems, Output


@given(st.lists(st.binary(max_size=CHUNK_BYTES // 4) | st.just(b"x" * (CHUNK_BYTES + 1))))
def test_chunks_contain_everything_in_order(parts: list[bytes]) -> None:
    """Each has about ``CHUNK_BYTES``, or is one larger part."""
    output = Output()
    for part in parts:
        output.add(part)
    chunks = output.finish()
    assert b"".join(chunks) == b"".join(parts)
    assert all(len(chunk) < 2 * CHUNK_BYTES + 1 for chunk in chunks)
    assert all(len(chunk) >= CHUNK_BYTES for chunk in chunks[:-1])


def test_step_ends_after_a_number_of_items() -> None:
    """Items count at any depth."""
    output = Output()
    ends = [output.ends_step(1) for _ in range(3 * ITEMS_PER_STEP)]
    assert [number for number, is_end in enumerate(ends, 1) if is_end] == [
        ITEMS_PER_STEP, 2 * ITEMS_PER_STEP, 3 * ITEMS_PER_STEP
    ]  # fmt: skip


def test_lazy_items_are_created_on_each_iteration() -> None:
    made: list[int] = []

    def make(number: int) -> str:
        made.append(number)
        return str(number)

    items = LazyItems(make, [1, 2, 3])
    assert (len(items), made) == (3, [])
    remaining = iter(items)
    assert (next(remaining), made) == ("1", [1])
    assert list(items) == ["1", "2", "3"]
