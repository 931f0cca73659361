"""Work that is done in steps."""

from authorizerd.acl.steps import ITEMS_FREED_PER_STEP, Steps, at_once, finish, free


def test_finish_returns_what_the_steps_come_to() -> None:
    """All of them are run, none of them twice."""
    ran: list[int] = []

    def steps() -> Steps[str]:
        for step in range(3):
            ran.append(step)
            yield
        return "done"

    assert finish(steps()) == "done"
    assert ran == [0, 1, 2]


def test_a_list_is_freed_in_steps() -> None:
    """No step frees many items, and none is left."""
    items = list(range(4 * ITEMS_FREED_PER_STEP))
    left = [len(items) for _ in free(items)]
    assert left == [n * ITEMS_FREED_PER_STEP for n in (3, 2, 1)]
    assert items == []
    assert list(free([1, 2, 3])) == []


def test_a_value_that_is_known_takes_no_step() -> None:
    """``at_once`` is for answers that need no work."""
    assert list(at_once(True)) == []
    assert finish(at_once("value")) == "value"
