"""Check the Python of each executor before the job starts.

**Invariant:** this module imports nothing that may be missing, since it reports missing modules.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIRED_MODULES: Final = ("immutables", "msgspec", "pyarrow")
PYTHON_MIN: Final = (3, 11)

_ROUNDS_MAX: Final = 5
_TASK_SECONDS: Final = 0.2  # long enough that every executor gets a task


class Finding(NamedTuple):
    """The Python of one executor.

    ``process``, the parent of the executor's Python workers, identifies it.
    """

    host: str
    process: int
    python: str
    missing: tuple[str, ...]


def probe_executors(spark: SparkSession) -> None:
    """Check every running executor; those of a local master have this process's Python.

    Raises:
        JobError: an executor lacks a module; the text names both.
    """
    from authorizerd.replay.spark.errors import JobError

    context = spark.sparkContext
    master = str(context.master)
    if master == "local" or master.startswith("local["):
        return
    seen: set[Finding] = set()
    for _ in range(_ROUNDS_MAX):
        tasks = 2 * context.defaultParallelism
        seen.update(context.parallelize(range(tasks), tasks).mapPartitions(_look).collect())
        unfit = sorted({_complaint(finding) for finding in seen if finding.missing})
        if unfit:
            raise JobError("; ".join(unfit))
        # The status also lists the driver, which runs no task.
        executors = context._jsc.sc().getExecutorMemoryStatus().size() - 1
        if len({(finding.host, finding.process) for finding in seen}) >= executors:
            return


def missing_modules(names: Iterable[str]) -> tuple[str, ...]:
    """Return the ``names`` that this Python cannot import, and the minimum if it is too old."""
    missing = tuple(name for name in names if not _is_importable(name))
    if sys.version_info < PYTHON_MIN:
        return (f"Python {'.'.join(map(str, PYTHON_MIN))}", *missing)
    return missing


def _look(_: Iterable[int]) -> Iterator[Finding]:
    time.sleep(_TASK_SECONDS)
    yield Finding(
        socket.gethostname(), os.getppid(), sys.executable, missing_modules(REQUIRED_MODULES)
    )


def _is_importable(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:  # also for a wheel of another platform
        return False
    return True


def _complaint(finding: Finding) -> str:
    lacks = ", ".join(finding.missing)
    return f"the executor's Python on {finding.host}, {finding.python}, lacks {lacks}"
