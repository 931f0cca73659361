"""Choose what evaluates recorded traffic, this process or Spark, and run the command there.

**Invariant:** both engines write the same summary, byte for byte. Standard error names the engine
and the reason for it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

from msgspec.structs import replace

from authorizerd.replay.ingest.options import make_logs_plan
from authorizerd.replay.local.errors import NeedsSparkError, TrafficError
from authorizerd.replay.local.files import estimate_bytes, find_logs
from authorizerd.replay.local.traffic import LogEngine
from authorizerd.replay.messages import EXIT_DONE, MESSAGE
from authorizerd.replay.options import is_uri
from authorizerd.replay.plans import IngestPlan, Plan, UsagePlan, WhatIfPlan
from authorizerd.replay.recorded.tuples import Engine
from authorizerd.replay.submit.options import SparkOptions
from authorizerd.replay.text import format_count
from authorizerd.replay.usage import evaluation as usage
from authorizerd.replay.whatif import evaluation as whatif

LOCAL_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""Some ten million lines, which one process reads in a minute or two."""

_INTERRUPTED: Final = 130
_MEBIBYTE: Final = 1024 * 1024


def run_recorded(parsed: argparse.Namespace, options: SparkOptions) -> int:
    """Run the command on ``--events`` or ``--logs``, and return its exit code.

    Raises:
        SubmissionError: Spark is needed, and cannot be started.
        TrafficError: the traffic cannot be evaluated.
    """
    refused = _refusal(parsed, options)
    if refused is not None:
        refuse: Callable[[str], NoReturn] = parsed.refuse
        refuse(refused)
    logs = make_logs_plan(parsed) if parsed.logs else None
    plan: Plan = parsed.make_plan(parsed, is_local=options.is_local)
    assert isinstance(plan, UsagePlan | WhatIfPlan), "only these commands have recorded traffic"
    try:
        why_spark = _why_spark(parsed.engine, options, logs, plan)
        if why_spark is None:
            return _run_here(logs, plan)
    except KeyboardInterrupt:
        _say("stopped")
        return _INTERRUPTED
    except NeedsSparkError as error:
        if parsed.engine == "local":
            raise TrafficError(f"{error.reason}: use --engine spark") from error
        why_spark = error.reason
    return _run_on_spark(logs, plan, options, why_spark)


def _refusal(parsed: argparse.Namespace, options: SparkOptions) -> str | None:
    """Return why the options contradict each other, or None."""
    if parsed.logs and not options.is_local:
        return (
            f"--logs: --master {options.master} cannot read logs without an ingest: run "
            "authorizerd replay ingest, and pass its --out with --events"
        )
    if parsed.logs and is_uri(parsed.out):
        return f"--out: expected a directory on this machine with --logs, found {parsed.out}"
    if parsed.engine == "local" and _is_spark_configured(options):
        return "--engine: local uses no Spark, so it cannot be combined with options of Spark"
    return None


def _is_spark_configured(options: SparkOptions) -> bool:
    return options != SparkOptions(verbose=options.verbose)


def _why_spark(
    engine: str, options: SparkOptions, logs: IngestPlan | None, plan: UsagePlan | WhatIfPlan
) -> str | None:
    """Return why Spark evaluates the traffic, or None if this process does.

    Raises:
        NeedsSparkError: this process cannot read it.
    """
    if engine == "spark":
        return "--engine spark"
    if _is_spark_configured(options):
        return "options of Spark were given"
    if logs is None:
        _check_table(plan)
    elif engine == "auto":
        size = estimate_bytes(find_logs(logs.inputs))
        if size > LOCAL_BYTES_MAX:
            return (
                f"the logs have about {size // _MEBIBYTE:,} MiB unpacked, more than "
                f"{LOCAL_BYTES_MAX // _MEBIBYTE:,}"
            )
    return None


def _check_table(plan: UsagePlan | WhatIfPlan) -> None:
    for path in (plan.events, plan.out):
        if is_uri(path):
            raise NeedsSparkError(f"{path}: expected a path on this machine, found a URI")
    if find_spec("pyarrow") is None:
        raise NeedsSparkError("pyarrow, which reads events without Spark, is not installed")


def _run_here(logs: IngestPlan | None, plan: UsagePlan | WhatIfPlan) -> int:
    # Results of an earlier run would contradict those of this one. The summaries go first.
    is_usage = isinstance(plan, UsagePlan)
    _remove(plan.out, *(("usage.json", "commands.sh") if is_usage else ("whatif.json", "changes")))
    engine: Engine
    if logs is not None:
        files = format_count(len(find_logs(logs.inputs)), "file")
        _say(f"engine: local, without Spark ({files})")
        engine = LogEngine(logs, plan.out)
    else:
        from authorizerd.replay.local.table import TableEngine

        _say("engine: local, without Spark")
        engine = TableEngine(plan.events, plan.out)
    if isinstance(plan, UsagePlan):
        return usage.run(plan, engine)
    return whatif.run(plan, engine)


def _remove(folder: str, *names: str) -> None:
    """Remove results of an earlier run.

    Raises:
        TrafficError: one cannot be removed.
    """
    try:
        for path in (Path(folder, name) for name in names):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error


def _run_on_spark(logs: IngestPlan | None, plan: Plan, options: SparkOptions, reason: str) -> int:
    """Run the command's job; ingest logs first, into a directory below the command's results."""
    from authorizerd.replay.submit.submitter import submit

    _say(f"engine: spark ({reason})")
    if logs is None:
        return submit(plan, options)
    code = submit(logs, options)
    if code != EXIT_DONE:
        return code
    # The ingest made the output directory, and the plan has already checked it.
    return submit(replace(plan, overwrite=True), options)


def _say(text: str) -> None:
    print(f"{MESSAGE}{text}", file=sys.stderr, flush=True)
