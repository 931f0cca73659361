"""Choose where the lanes of a load run: in processes of this machine, or in tasks of Spark."""

from __future__ import annotations

import argparse
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from typing import Final

from msgspec.structs import replace

from authorizerd.replay.errors import LoadError, NeedsSparkError
from authorizerd.replay.load.lanes.connection import connect
from authorizerd.replay.load.lanes.processes import LaneProcesses
from authorizerd.replay.load.running import run_load
from authorizerd.replay.messages import say
from authorizerd.replay.options import is_uri
from authorizerd.replay.plain_files import LocalFiles
from authorizerd.replay.plans import LoadPlan
from authorizerd.replay.submit.options import SparkOptions, run_or_submit

LANES_MAX: Final = 256
"""Maximum number of processes."""
_MARGIN_S: Final = 0.1
"""The processes learn the start from this one, within milliseconds."""


def run_command(parsed: argparse.Namespace, options: SparkOptions) -> int:
    """Run the load, and return its exit code.

    Raises:
        LoadError, SendingError: the load cannot run, or has failed.
        SubmissionError: Spark is needed, and cannot be started.
    """
    from authorizerd.replay.submit.submitter import submit

    plan: LoadPlan = parsed.make_plan(parsed, is_local=options.is_local)

    def run() -> int:
        _check_here(plan)
        say("engine: local, without Spark")
        try:
            return run_here(plan)
        except OSError as error:
            raise LoadError(f"{error.filename or plan.out}: {error.strerror or error}") from error

    return run_or_submit(parsed, options, run, lambda: submit(plan, options))


def run_here(plan: LoadPlan) -> int:
    """Run the load without Spark; return 0, 3 if a threshold failed, or 1 if it is not valid.

    Raises:
        LoadError: events, plan or target are unusable; nothing was sent.
        SendingError: a lane's process has ended while it was sending.
        OSError: a file cannot be written.
    """
    from authorizerd.replay.load.plan.ordering import plan_here  # it needs pyarrow

    if plan.start_margin_s is None:
        plan = replace(plan, start_margin_s=_MARGIN_S)
    storage = LocalFiles()
    storage.remove(f"{plan.out}/load.json")
    if not plan.dry_run:
        connected, _ = connect(plan)
        connected.close()
    with closing(LaneProcesses(plan)) as lanes, plan_here(plan) as (schedule, questions):
        return run_load(plan, schedule, storage, partial(lanes.run, schedule, questions))


def _check_here(plan: LoadPlan) -> None:
    """Raise NeedsSparkError if this machine cannot run the load without Spark."""
    for path in (plan.events, plan.out):
        if is_uri(path):
            raise NeedsSparkError(f"{path}: expected a path on this machine, found a URI")
    if plan.lanes > LANES_MAX:
        raise NeedsSparkError(f"{plan.lanes} lanes are more than {LANES_MAX} processes")
    if find_spec("pyarrow") is None:
        raise NeedsSparkError("pyarrow, which reads events without Spark, is not installed")
