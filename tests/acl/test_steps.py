"""Long work in steps."""

import functools
import operator

from authorizerd.acl.steps import ITEMS_PER_CHUNK, Steps, at_once, finish, free, in_chunks


def test_finish_returns_the_result_of_the_steps() -> None:
    """Each step runs once."""
    ran: list[int] = []

    def steps() -> Steps[str]:
        for step in range(3):
            ran.append(step)
            yield
        return "done"

    assert finish(steps()) == "done"
    assert ran == [0, 1, 2]


def test_a_list_is_freed_item_by_item() -> None:
    items = list(range(4))
    assert [len(items) for _ in free(items)] == [3, 2, 1]
    assert items == []
    assert list(free(items)) == []


def test_chunks_are_short_and_in_order() -> None:
    items = list(range(2 * ITEMS_PER_CHUNK + 1))
    chunks = list(in_chunks(items))
    assert list(map(len, chunks)) == [ITEMS_PER_CHUNK, ITEMS_PER_CHUNK, 1]
    assert functools.reduce(operator.iadd, chunks, []) == items


def test_at_once_takes_no_step() -> None:
    assert list(at_once(True)) == []
    assert finish(at_once("value")) == "value"
