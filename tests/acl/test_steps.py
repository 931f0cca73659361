"""Work that is done in steps."""

from acl.steps import Steps, finish


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
