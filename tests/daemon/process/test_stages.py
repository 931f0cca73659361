import pytest
import trio

from authorizerd.daemon.process.stages import Stage, run_stages


class Life:
    """Stages that record each step."""

    def __init__(self, failing: str = "") -> None:
        self.steps: list[str] = []
        self.failing = failing

    def stage(self, name: str) -> Stage:
        wants_end = trio.Event()

        async def serve(*, task_status: trio.TaskStatus[None]) -> None:
            await trio.testing.wait_all_tasks_blocked()
            self.steps.append(f"+{name}")
            task_status.started()
            try:
                if self.failing == name:
                    raise ValueError(name)
                await wants_end.wait()
            finally:
                self.steps.append(f"-{name}")

        async def end(_: trio.CancelScope) -> None:
            self.steps.append(f"end {name}")
            wants_end.set()

        return Stage(name=name, awaited=(serve,), services=(wants_end.wait,), end=end)

    async def run(self) -> None:
        async def body() -> None:
            if self.failing:
                await trio.sleep_forever()
            self.steps.append("body")

        stages = [self.stage(name) for name in "abc"]
        await run_stages(stages, body, lambda name: self.steps.append(f"on_end {name}"))


async def test_stages_start_in_order_and_each_ends_before_the_one_below_it() -> None:
    life = Life()
    await life.run()
    assert life.steps == [
        "+a", "+b", "+c", "body",
        "on_end c", "end c", "-c", "on_end b", "end b", "-b", "on_end a", "end a", "-a",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("failing", "steps"),
    [
        ("a", ["+a", "-a"]),
        ("b", ["+a", "+b", "-b", "-a"]),
        ("c", ["+a", "+b", "+c", "-c", "-b", "-a"]),
    ],
)
async def test_a_fault_in_any_stage_cancels_all(failing: str, steps: list[str]) -> None:
    life = Life(failing)
    with trio.fail_after(10), pytest.RaisesGroup(ValueError, flatten_subgroups=True):
        await life.run()
    assert life.steps[: len(steps)] == steps
    assert not [step for step in life.steps if "end" in step]


async def test_services_are_cancelled_unless_a_stage_says_how_they_end() -> None:
    await run_stages((Stage(name="a", services=(trio.sleep_forever,)),), trio.lowlevel.checkpoint)
