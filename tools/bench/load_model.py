"""Predict from measured figures what many tasks of ``replay load`` send and cost the driver.

**Invariant:** every figure of ``docs/replay-load.md`` is measured, or computed here from measured
ones. ``predict`` is compared with what 1, 2 and 4 tasks sent on one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

LANES: Final = (10, 100, 1000)
"""The numbers of tasks that the page shows, one executor core each."""
PAGE: Final = Path("docs/replay-load.md")
FIGURES: Final = Path("docs/replay-scale.json")
BEGIN: Final = "<!-- figures: begin; written by python -m tools.bench.load_scale --write -->\n"
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


def predict(alone: TaskFigures, run: TaskFigures) -> float:
    """Return the questions per second that the tasks of ``run`` send, from the costs of ``alone``.

    Each task has one thread, and so has the target. Together they have ``run.cores``, which is less
    than the machine's if other programs run.
    """
    shared = run.cores * 1e6 / (alone.task_us + alone.target_us)
    closed = min(run.tasks * 1e6 / alone.task_us, 1e6 / alone.target_us, shared)
    return closed if run.rate is None else min(closed, run.rate * run.tasks)


def sent_per_s(measured: Measured, lanes: int) -> float:
    """Return the most questions per second that tasks with a core each send to other machines."""
    # The trivial target costs a task the least.
    return lanes * 1e6 / measured.alone("trivial").task_us


def seconds_max(driver: DriverFigures) -> int:
    """Return the length of a run whose results reach the limit of the driver."""
    return int(_RESULTS_BYTES_MAX / (driver.result_bytes / driver.seconds))


_TASK_COLUMNS: Final[dict[str, Callable[[Measured, TaskFigures], str]]] = {
    "target": lambda _, each: each.target,
    "tasks": lambda _, each: str(each.tasks),
    "pace": lambda _, each: "closed" if each.rate is None else f"{each.rate:,.0f}/s each",
    "cores": lambda _, each: f"{each.cores:.1f}",
    "predicted, /s": lambda of, each: f"{predict(of.alone(each.target), each):,.0f}",
    "sent, /s": lambda _, each: f"{each.served_per_s:,.0f}",
    "p99, ms": lambda _, each: f"{each.p99_ms:.2f}",
    "send lag p99, ms": lambda _, each: f"{each.send_lag_ms:.2f}",
    "start skew, ms": lambda _, each: f"{each.skew_ms:.2f}",
    "task's CPU, µs": lambda _, each: f"{each.task_us:.2f}",
    "target's CPU, µs": lambda _, each: f"{each.target_us:.2f}",
}
_SENT_COLUMNS: Final[dict[str, Callable[[Measured, DriverFigures], str]]] = {
    "tasks": lambda _, each: f"{each.lanes:,}",
    "questions/s": lambda of, each: f"{sent_per_s(of, each.lanes):,.0f}",
    "to the target, Gbit/s": lambda of, each: (
        f"{sent_per_s(of, each.lanes) * of.question_bytes * 8 / 1e9:,.1f}"
    ),
    "back, Gbit/s": lambda of, each: (
        f"{sent_per_s(of, each.lanes) * of.answer_bytes * 8 / 1e9:,.2f}"
    ),
    "cores of daemons": lambda of, each: (
        f"{sent_per_s(of, each.lanes) * of.alone('daemon').target_us / 1e6:,.0f}"
    ),
    "connections": lambda _, each: f"{each.lanes:,}",
}
_DRIVER_COLUMNS: Final[dict[str, Callable[[Measured, DriverFigures], str]]] = {
    "tasks": lambda _, each: f"{each.lanes:,}",
    "barrier message, KiB": lambda _, each: f"{each.message_bytes / 1024:,.1f}",
    "all of them, MiB": lambda _, each: f"{each.message_bytes * each.lanes / _MIB:,.1f}",
    "time to read one, ms": lambda _, each: f"{each.message_s * 1e3:.1f}",
    "held by Spark's barrier, s": lambda of, each: (
        f"{of.barrier_s[each.lanes]:.1f}" if each.lanes in of.barrier_s else "not measured"
    ),
    "results, MiB": lambda _, each: f"{each.result_bytes / _MIB:,.1f}",
    "merging, s": lambda _, each: f"{each.merge_s:.2f}",
    "memory, MiB": lambda _, each: f"{each.memory_bytes / _MIB:,.0f}",
    "longest run with 1 GiB of results, s": lambda _, each: f"{seconds_max(each):,}",
}


def format_figures(measured: Measured) -> str:
    """Return the tables of the page."""
    barrier = f"\nSpark's barrier was measured at {measured.barrier_at}."
    return f"""\
Measured at {measured.at}, on {measured.cores} cores, with up to {measured.batch} questions per \
frame. A question takes {measured.question_bytes:.0f} bytes to the target, \
{measured.answer_bytes:.1f} back, and {measured.shuffle_bytes:.0f} in the shuffle of planning.

### Tasks on one machine, as predicted and as measured

{_table(_TASK_COLUMNS, measured, measured.tasks)}

Closed loops of several tasks sent {_range(measured, is_closed=True)} of the prediction, paced \
loops {_range(measured, is_closed=False)}.

### Tasks with a core each, and a target that is never the limit

{_table(_SENT_COLUMNS, measured, measured.drivers)}

### The driver, for a load of {measured.drivers[0].seconds} s

{_table(_DRIVER_COLUMNS, measured, measured.drivers)}
{barrier if measured.barrier_s else ""}
"""


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


def _table(
    columns: Mapping[str, Callable[[Measured, T], str]], measured: Measured, rows: Iterable[T]
) -> str:
    cells = [[column(measured, row) for column in columns.values()] for row in rows]
    lines = [f"| {' | '.join(line)} |" for line in (columns, *cells)]
    lines.insert(1, "|" + "---|" * len(columns))
    return "\n".join(lines)


def replace_figures(page: str, measured: Measured) -> str:
    """Return the page with the tables of ``measured`` between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{PAGE}: expected the markers {BEGIN!r} and {END!r}, in this order"
    return f"{before}{BEGIN}{format_figures(measured)}{END}{after}"
