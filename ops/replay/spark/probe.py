"""Check the Python of each executor before the job starts.

**Invariant:** this module imports nothing that may be missing, since it reports missing modules.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUIRED_MODULES: Final = ("immutables", "msgspec", "pyarrow")
DRIVER_MODULES: Final = (*REQUIRED_MODULES, "pandas")
"""PySpark needs pandas where ``mapInArrow`` is called, and not where the function runs."""
COMMAND_MODULES: Final = (*DRIVER_MODULES, "crc32c")
"""A driver that reads ACLs also needs the module that checks a metadata log."""
PYTHON_MIN: Final = (3, 11)

_ROUNDS_MAX: Final = 5  # rounds end earlier if one finds no new executor
_MANY_ROWS: Final = 1 << 20
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
    from authorizerd.replay.spark.session import is_local

    if is_local(spark):
        return
    seen: set[Finding] = set()
    for _ in range(_ROUNDS_MAX):
        found = look_around(spark)
        unfit = {
            f"the executor's Python on {one.host}, {one.python}, lacks {', '.join(one.missing)}"
            for one in found
            if one.missing
        }
        if unfit:
            raise JobError("; ".join(sorted(unfit)))
        if found <= seen:
            return
        seen |= found


def look_around(spark: SparkSession) -> set[Finding]:
    """Return the Python of each executor that runs one of two tasks per slot."""
    from pyspark.sql import functions as sql

    # Spark makes a partition of such a range for each slot.
    numbers = spark.range(_MANY_ROWS).select(sql.spark_partition_id().alias("number"))
    (last,) = numbers.agg(sql.max("number").alias("number")).collect()
    tasks = 2 * (last.number + 1)
    # Without Arrow, which an executor may lack.
    look = sql.udf(_look, "string", useArrow=False)
    rows = spark.range(0, tasks, 1, tasks).select(look("id").alias("found")).collect()
    findings = (json.loads(row.found) for row in rows)
    return {
        Finding(host, process, python, tuple(lacks)) for host, process, python, lacks in findings
    }


def missing_modules(names: Iterable[str]) -> tuple[str, ...]:
    """Return the ``names`` that this Python cannot import, and the minimum if it is too old."""
    missing = tuple(name for name in names if not _is_importable(name))
    if sys.version_info < PYTHON_MIN:
        return (f"Python {'.'.join(map(str, PYTHON_MIN))}", *missing)
    return missing


def _look(_: int) -> str:
    time.sleep(_TASK_SECONDS)
    return json.dumps(
        [socket.gethostname(), os.getppid(), sys.executable, missing_modules(REQUIRED_MODULES)]
    )


def _is_importable(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:  # also for a wheel of another platform
        return False
    return True
