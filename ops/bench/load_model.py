"""What many tasks of ``replay load`` send, and what they cost the driver, from measured figures.

**Invariant:** every figure of ``docs/replay-scale.md`` is measured, or computed here from measured
ones. ``predict`` is compared with what 1, 2 and 4 tasks sent on one machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

LANES: Final = (10, 100, 1000)
"""The numbers of tasks that the page shows, one executor core each."""
PAGE: Final = Path("docs/replay-scale.md")
FIGURES: Final = Path("docs/replay-scale.json")
BEGIN: Final = "<!-- figures: begin; written by python -m ops.bench.load_scale --write -->\n"
END: Final = "<!-- figures: end -->\n"

_RESULTS_BYTES_MAX: Final = 1 << 30
"""Spark's default of ``spark.driver.maxResultSize``."""
_MIB: Final = 1 << 20


class TaskFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A run of some tasks on one machine.

    ``rate`` is what each task offered per second, or None for a closed loop. The CPU times are per
    question, in µs. ``cores`` is the CPU time that tasks and target used or left idle, per second.
    ``skew_ms`` is the time between the starts of the first and of the last task.
    """

    target: str
    tasks: int
    rate: float | None
    served_per_s: float
    p99_ms: float
    send_lag_ms: float
    skew_ms: float
    task_us: float
    target_us: float
    cores: float


class DriverFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The driver's part for ``lanes`` results with a timeline of ``seconds``.

    ``merge_s`` is the time to decode and merge them, ``memory_bytes`` the growth of the process.
    ``message_bytes`` is what the barrier returns to each task, ``message_s`` the time to read it.
    """

    lanes: int
    seconds: int
    result_bytes: int
    merge_s: float
    memory_bytes: int
    message_bytes: int
    message_s: float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of one measurement.

    ``question_bytes`` and ``answer_bytes`` cross the network per question, ``shuffle_bytes`` cross
    it while planning. ``barrier_s`` is how long Spark's barrier held tasks, by number of tasks, as
    measured at ``barrier_at``.
    """

    at: str
    cores: int
    batch: int
    question_bytes: float
    answer_bytes: float
    shuffle_bytes: float
    tasks: list[TaskFigures]
    drivers: list[DriverFigures]
    barrier_s: dict[int, float] = {}
    barrier_at: str = ""

    def alone(self, target: str) -> TaskFigures:
        """Return the closed loop of one task."""
        return next(
            each for each in self.tasks if (each.target, each.tasks, each.rate) == (target, 1, None)
        )


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """What ``lanes`` tasks with a core each send, and what that takes."""

    lanes: int
    sent_per_s: float
    out_bits_per_s: float
    back_bits_per_s: float
    target_cores: float
    message_bytes: int
    messages_bytes: int
    result_bytes: int
    merge_s: float
    memory_bytes: int
    seconds_max: int
    """Length of a run whose results reach the limit of ``spark.driver.maxResultSize``."""


def predict(alone: TaskFigures, run: TaskFigures) -> float:
    """Return the questions per second that the tasks of ``run`` send, from the costs of ``alone``.

    Each task has one thread, and so has the target. Together they have ``run.cores``, which is less
    than the machine's if other programs run.
    """
    shared = run.cores * 1e6 / (alone.task_us + alone.target_us)
    closed = min(run.tasks * 1e6 / alone.task_us, 1e6 / alone.target_us, shared)
    return closed if run.rate is None else min(closed, run.rate * run.tasks)


def project(measured: Measured, driver: DriverFigures) -> Projection:
    """Return what as many tasks as ``driver`` has send to daemons on other machines."""
    # The trivial target costs a task the least, so this is the most that it can send.
    sent_per_s = driver.lanes * 1e6 / measured.alone("trivial").task_us
    second_bytes = driver.result_bytes / driver.seconds
    return Projection(
        lanes=driver.lanes,
        sent_per_s=sent_per_s,
        out_bits_per_s=sent_per_s * measured.question_bytes * 8,
        back_bits_per_s=sent_per_s * measured.answer_bytes * 8,
        target_cores=sent_per_s * measured.alone("daemon").target_us / 1e6,
        message_bytes=driver.message_bytes,
        messages_bytes=driver.message_bytes * driver.lanes,
        result_bytes=driver.result_bytes,
        merge_s=driver.merge_s,
        memory_bytes=driver.memory_bytes,
        seconds_max=int(_RESULTS_BYTES_MAX / second_bytes),
    )


def format_figures(measured: Measured) -> str:
    """Return the tables of the page."""
    return "\n".join(
        (
            f"Measured at {measured.at}, on {measured.cores} cores, with up to {measured.batch} "
            f"questions per frame. A question takes {measured.question_bytes:.0f} bytes to the "
            f"target, {measured.answer_bytes:.1f} back, and {measured.shuffle_bytes:.0f} in the "
            "shuffle of planning.\n",
            "### Tasks on one machine, as predicted and as measured\n",
            *_table(_TASK_HEAD, _task_rows(measured)),
            f"\nClosed loops of several tasks sent {_range(measured, is_closed=True)} of the "
            f"prediction, paced loops {_range(measured, is_closed=False)}.",
            "\n### Tasks with a core each, and a target that is never the limit\n",
            *_table(_SENT_HEAD, _sent_rows(measured)),
            f"\n### The driver, for a load of {measured.drivers[0].seconds} s\n",
            *_table(_DRIVER_HEAD, _driver_rows(measured)),
            f"\nSpark's barrier was measured at {measured.barrier_at}."
            if measured.barrier_s
            else "",
            "",
        )
    )


_TASK_HEAD: Final = (
    "target", "tasks", "pace", "cores", "predicted, /s", "sent, /s", "p99, ms",
    "send lag p99, ms", "start skew, ms", "task's CPU, µs", "target's CPU, µs",
)  # fmt: skip
_SENT_HEAD: Final = (
    "tasks", "questions/s", "to the target, Gbit/s", "back, Gbit/s", "cores of daemons",
    "connections",
)  # fmt: skip
_DRIVER_HEAD: Final = (
    "tasks", "barrier message, KiB", "all of them, MiB", "time to read one, ms",
    "held by Spark's barrier, s", "results, MiB", "merging, s", "memory, MiB",
    "longest run with 1 GiB of results, s",
)  # fmt: skip


def _task_rows(measured: Measured) -> Iterator[Sequence[str]]:
    for each in measured.tasks:
        yield (
            each.target,
            str(each.tasks),
            "closed" if each.rate is None else f"{each.rate:,.0f}/s each",
            f"{each.cores:.1f}",
            f"{predict(measured.alone(each.target), each):,.0f}",
            f"{each.served_per_s:,.0f}",
            f"{each.p99_ms:.2f}",
            f"{each.send_lag_ms:.2f}",
            f"{each.skew_ms:.2f}",
            f"{each.task_us:.2f}",
            f"{each.target_us:.2f}",
        )


def _range(measured: Measured, *, is_closed: bool) -> str:
    """Return the least and the highest share of the prediction that was sent, as percentages.

    The runs that the predictions come from do not count.
    """
    shares = [
        each.served_per_s / predict(alone, each)
        for each in measured.tasks
        if each != (alone := measured.alone(each.target)) and (each.rate is None) == is_closed
    ]
    return f"{min(shares):.0%} to {max(shares):.0%}"


def _sent_rows(measured: Measured) -> Iterator[Sequence[str]]:
    for each in (project(measured, driver) for driver in measured.drivers):
        yield (
            f"{each.lanes:,}",
            f"{each.sent_per_s:,.0f}",
            f"{each.out_bits_per_s / 1e9:,.1f}",
            f"{each.back_bits_per_s / 1e9:,.2f}",
            f"{each.target_cores:,.0f}",
            f"{each.lanes:,}",
        )


def _driver_rows(measured: Measured) -> Iterator[Sequence[str]]:
    for driver in measured.drivers:
        each = project(measured, driver)
        held_s = measured.barrier_s.get(driver.lanes)
        yield (
            f"{each.lanes:,}",
            f"{each.message_bytes / 1024:,.1f}",
            f"{each.messages_bytes / _MIB:,.1f}",
            f"{driver.message_s * 1e3:.1f}",
            "not measured" if held_s is None else f"{held_s:.1f}",
            f"{each.result_bytes / _MIB:,.1f}",
            f"{each.merge_s:.2f}",
            f"{each.memory_bytes / _MIB:,.0f}",
            f"{each.seconds_max:,}",
        )


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def replace_figures(page: str, measured: Measured) -> str:
    """Return the page with the tables of ``measured`` between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{PAGE}: expected the markers {BEGIN!r} and {END!r}, in this order"
    return f"{before}{BEGIN}{format_figures(measured)}{END}{after}"
