"""Choose where to evaluate recorded traffic, in this process or on Spark, and do it there.

**Invariant:** both engines write the same summary, byte for byte. Standard error names the engine
and the reason for it.
"""

from __future__ import annotations

import argparse
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from authorizerd.replay.errors import NeedsSparkError, TrafficError
from authorizerd.replay.ingest.options import make_logs_plan
from authorizerd.replay.local.files import estimate_bytes, find_logs
from authorizerd.replay.local.traffic import LogEngine
from authorizerd.replay.messages import EXIT_DONE, say
from authorizerd.replay.options import is_uri, refuse
from authorizerd.replay.plans import IngestPlan, Plan, UsagePlan, WhatIfPlan
from authorizerd.replay.recorded.tuples import Engine
from authorizerd.replay.submit.options import SparkOptions, run_or_submit, why_spark
from authorizerd.replay.text import format_count
from authorizerd.replay.usage import evaluation as usage
from authorizerd.replay.whatif import evaluation as whatif

LOCAL_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""About ten million lines, which one process reads in a minute or two."""

_MEBIBYTE: Final = 1024 * 1024
_RESULTS: Final[dict[type[Plan], tuple[str, ...]]] = {
    UsagePlan: ("usage.json", "commands.sh"),
    WhatIfPlan: ("whatif.json", "changes"),
}
"""The results of each command. The summary is removed first."""


def run_recorded(parsed: argparse.Namespace, options: SparkOptions) -> int:
    """Run the command on ``--events`` or ``--logs``, and return its exit code.

    Raises:
        SubmissionError: Spark is needed, and cannot be started.
        TrafficError, UsageError: the traffic cannot be evaluated.
    """
    if parsed.logs and not options.is_local:
        cluster = "--remote" if options.remote else f"--master {options.master}"
        refuse(
            parsed,
            f"--logs: {cluster} cannot read logs without an ingest: run "
            "authorizerd replay ingest, and pass its --out with --events",
        )
    if parsed.logs and is_uri(parsed.out):
        found = f"--out: expected a directory on this machine with --logs, found {parsed.out}"
        refuse(parsed, found)
    logs = make_logs_plan(parsed) if parsed.logs else None
    plan: Plan = parsed.make_plan(parsed, is_local=options.is_local)
    assert isinstance(plan, UsagePlan | WhatIfPlan), "only these commands have recorded traffic"
    bytes_max = LOCAL_BYTES_MAX if parsed.engine == "auto" else None
    return run_or_submit(
        parsed,
        options,
        lambda: _run_here(logs, plan, bytes_max=bytes_max),
        lambda: _run_on_spark(logs, plan, options, why_spark(parsed, options)),
    )


def run_ingest(parsed: argparse.Namespace, options: SparkOptions) -> int:
    """Run ``ingest``, and return its exit code.

    Raises:
        JobError: as ``ingest.adding.add``.
        SubmissionError: Spark is needed, and cannot be started.
    """
    from authorizerd.replay.submit.submitter import submit

    plan: IngestPlan = parsed.make_plan(parsed, is_local=options.is_local)
    return run_or_submit(parsed, options, lambda: _ingest_here(plan), lambda: submit(plan, options))


def _ingest_here(plan: IngestPlan) -> int:
    if find_spec("pyarrow") is None:
        raise NeedsSparkError("pyarrow, which writes events without Spark, is not installed")
    from authorizerd.replay.local.runs import ingest

    return ingest(plan)


def _run_here(
    logs: IngestPlan | None, plan: UsagePlan | WhatIfPlan, *, bytes_max: int | None
) -> int:
    """Run the command in this process.

    Raises:
        NeedsSparkError: this process cannot read the traffic, or logs have more than ``bytes_max``.
    """
    engine: Engine
    if logs is not None:
        files = find_logs(logs.inputs)
        size = estimate_bytes(files)
        if bytes_max is not None and size > bytes_max:
            raise NeedsSparkError(
                f"the logs have about {size // _MEBIBYTE:,} MiB unpacked, more than "
                f"{bytes_max // _MEBIBYTE:,}"
            )
        say(f"engine: local, without Spark ({format_count(len(files), 'file')})")
        _remove_results(plan)
        engine = LogEngine(logs, plan.out)
    else:
        for path in (plan.events, plan.out):
            if is_uri(path):
                raise NeedsSparkError(f"{path}: expected a path on this machine, found a URI")
        if find_spec("pyarrow") is None:
            raise NeedsSparkError("pyarrow, which reads events without Spark, is not installed")
        from authorizerd.replay.local.table import TableEngine

        say("engine: local, without Spark")
        _remove_results(plan)
        engine = TableEngine(plan.events, plan.out)
    return usage.run(plan, engine) if isinstance(plan, UsagePlan) else whatif.run(plan, engine)


def _remove_results(plan: UsagePlan | WhatIfPlan) -> None:
    """Remove the results of an earlier run, which would contradict those of this one.

    Raises:
        TrafficError: one cannot be removed.
    """
    try:
        for name in _RESULTS[type(plan)]:
            path = Path(plan.out, name)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error


def _run_on_spark(
    logs: IngestPlan | None, plan: Plan, options: SparkOptions, needed: str | None
) -> int:
    """Run the command's job; ingest logs first, into a directory below the command's results."""
    from authorizerd.replay.submit.submitter import submit

    if logs is None:
        return submit(plan, options)
    try:
        code = submit(logs, options) if needed else _ingest_here(logs)
    except NeedsSparkError:
        code = submit(logs, options)
    if code != EXIT_DONE:
        return code
    # The ingest made the output directory, and the plan has already checked it.
    return submit(replace(plan, overwrite=True), options)
