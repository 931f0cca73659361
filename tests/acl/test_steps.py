"""Long work in steps."""

from authorizerd.acl.steps import ITEMS_FREED_PER_STEP, Steps, at_once, finish, free


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


def test_a_list_is_freed_in_steps() -> None:
    items = list(range(4 * ITEMS_FREED_PER_STEP))
    left = [len(items) for _ in free(items)]
    assert left == [n * ITEMS_FREED_PER_STEP for n in (3, 2, 1)]
    assert items == []
    assert list(free([1, 2, 3])) == []


def test_at_once_takes_no_step() -> None:
    assert list(at_once(True)) == []
    assert finish(at_once("value")) == "value"
