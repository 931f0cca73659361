"""The Spark application: run one job in the driver of spark-submit.

    spark-submit --py-files authorizerd-replay.zip authorizerd-replay.py COMMAND ARGUMENTS…

``authorizerd replay`` runs the same file with ``--plan FILE`` in place of a command.

**Invariant:** only this module decides how a fault is shown to the user: as one line, with the
traceback in the log. It imports nothing that may be missing before it has checked the driver's
Python. A summary exists only next to the results that it describes: an earlier one is removed
before the job begins.
"""

from __future__ import annotations

import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from authorizerd.replay.messages import EXIT_FAULT, PLAN_FLAG
from authorizerd.replay.spark.driver_output import MessageStream, trace, trace_warning

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession

    from authorizerd.cli.program.command_parser import CommandParser
    from authorizerd.replay.plans import Plan

DRIVER_MODULES: Final = ("immutables", "msgspec", "pyarrow", "pandas")
"""PySpark needs pandas where ``mapInArrow`` is called, but not where the function runs."""
COMMAND_MODULES: Final = (*DRIVER_MODULES, "crc32c")
"""A driver that reads ACLs also needs the checksum module for metadata logs."""
PYTHON_MIN: Final = (3, 11)

_OF_SPARK: Final = "give it to spark-submit, before authorizerd-replay.py"
_SPARK_FLAGS: Final = ("--archives", "--conf", "--deploy-mode", "--master", "--verbose")


def main(words: Sequence[str]) -> int:
    """Run the job that ``words`` name, and return its exit code."""
    # spark-submit prints both streams of a Python driver to standard output anyway.
    sys.stderr = MessageStream(sys.stdout)
    warnings.showwarning = trace_warning
    is_planned = words[:1] == [PLAN_FLAG]
    missing = missing_modules(DRIVER_MODULES if is_planned else COMMAND_MODULES)
    if missing:
        print(
            f"the driver's Python, {sys.executable}, lacks {', '.join(missing)}: install them",
            file=sys.stderr,
        )
        return EXIT_FAULT
    from authorizerd.replay.spark.failures import is_named, one_line

    try:
        return _run_plan_file(words[1]) if is_planned else _run_command(words)
    except Exception as error:  # noqa: BLE001 - every fault is reported and logged
        if not is_named(error):
            trace(traceback.format_exc())
        print(one_line(error), file=sys.stderr)
        return EXIT_FAULT


def missing_modules(names: Iterable[str]) -> tuple[str, ...]:
    """Return the ``names`` that this Python cannot import, and the minimum if it is too old."""
    missing = tuple(name for name in names if not _is_importable(name))
    if sys.version_info < PYTHON_MIN:
        return (f"Python {'.'.join(map(str, PYTHON_MIN))}", *missing)
    return missing


def _is_importable(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:  # also raised for a wheel of another platform
        return False
    return True


def new_parser() -> CommandParser:
    """Return the parser of the words after ``authorizerd-replay.py``."""
    from authorizerd.replay.jobs import add_job_arguments, new_job_parser

    def add_arguments(name: str, parser: argparse.ArgumentParser) -> None:
        # ``--print`` belongs to the command that submits jobs.
        parser.set_defaults(only_print=False, advice=dict.fromkeys(_SPARK_FLAGS, _OF_SPARK))
        add_job_arguments(name, parser)

    about = "Evaluate recorded traffic in the driver of spark-submit."
    parser, _ = new_job_parser("authorizerd-replay.py", about, add_arguments)
    return parser


def _run_command(words: Sequence[str]) -> int:
    parsed = new_parser().parse_words(words)
    refused = _refusal(parsed)
    if refused is not None:
        parsed.refuse(refused)
    return _run(lambda is_local: parsed.make_plan(parsed, is_local=is_local))


def _refusal(parsed: argparse.Namespace) -> str | None:
    """Return why these arguments only work with ``authorizerd replay`` itself, or None."""
    if getattr(parsed, "logs", None):
        return "--logs: expected --events: run the command ingest first"
    if getattr(parsed, "engine", None) == "local":
        return "--engine local: expected auto or spark, since this program runs on Spark"
    for flag in ("acls", "baseline_acls"):
        source = getattr(parsed, flag, None)
        if source is not None and source.startswith("kafka://"):
            name = flag.replace("_", "-")
            return f"--{name}: {source}: expected a file: save the output of kafka-acls --list"
    return None


def _run_plan_file(path: str) -> int:
    from authorizerd.replay.command_lock import LOCK_NAME, end_with_command
    from authorizerd.replay.plans import decode_plan

    end_with_command(Path(path).with_name(LOCK_NAME))
    plan = decode_plan(Path(path).read_bytes())
    return _run(lambda is_local: plan)


def _run(make_plan: Callable[[bool], Plan]) -> int:
    """Start Spark, and run the plan from ``make_plan``, which gets whether the master is local."""
    from authorizerd.replay.spark.session import is_local, is_remote, send_code, session_builder

    spark = session_builder("authorizerd replay").getOrCreate()
    try:
        if is_remote(spark):
            # Closing the session ends its jobs on the server, which a signal alone would not.
            signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
            send_code(spark)
        return run_plan(spark, make_plan(is_local(spark)))
    finally:
        spark.stop()


def run_plan(spark: SparkSession, plan: Plan) -> int:
    """Run the plan's job and return its exit code.

    Raises:
        JobError: a session of Spark Connect cannot run the job, or ``out`` is not empty.
    """
    from authorizerd.replay.errors import JobError
    from authorizerd.replay.plans import FollowPlan
    from authorizerd.replay.spark.description import describe
    from authorizerd.replay.spark.progress import printing_progress
    from authorizerd.replay.spark.session import is_remote
    from authorizerd.replay.spark.storage import open_storage

    if isinstance(plan, FollowPlan) and is_remote(spark):
        raise JobError("--follow: expected a driver of its own, found Spark Connect: use --master")
    command = str(plan.__struct_config__.tag)
    # An ingest adds to its table, and replaces it only with a commit.
    storage = open_storage(spark, plan.out)
    if command != "ingest" and storage.is_occupied(plan.out):
        if not plan.overwrite:
            raise JobError(f"--out: {plan.out}: not empty; --overwrite replaces its results")
        storage.remove(f"{plan.out}/{command}.json")
    # A watch may run for days; progress of its stages would bury its messages.
    progress = nullcontext() if isinstance(plan, FollowPlan) else printing_progress(spark)
    with progress, describe(spark, command):
        code: int = import_module(f"authorizerd.replay.{command}.job").run(spark, plan)
    return code
