"""Let Spark count and judge the logs of ``authorizerd verify``; this process makes the report."""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from authorizerd.replay.local.errors import NeedsSparkError
from authorizerd.replay.local.traffic import leave_out_copies
from authorizerd.replay.messages import EXIT_DONE
from authorizerd.replay.plans import IngestPlan, VerifyPlan
from authorizerd.replay.submit.options import SparkOptions
from authorizerd.replay.submit.submitter import submit
from authorizerd.replay.verify.judging import Judge
from authorizerd.replay.verify.parts import RESULT, JudgedParts


def judge_on_spark(
    logs: IngestPlan, judge: Judge, options: SparkOptions
) -> tuple[JudgedParts, tuple[str, ...]]:
    """Return the result of a job, and which logs were not read. Blocks.

    If the job fails, it names its fault, and this command ends with its exit code.

    Raises:
        SubmissionError: the job cannot be started.
        TrafficError: a log is missing.
    """
    left_out: tuple[str, ...] = ()
    if options.is_local:
        with suppress(NeedsSparkError):  # only Spark finds them
            paths, left_out = leave_out_copies(logs.inputs)
            logs = replace(logs, inputs=tuple(str(path.absolute()) for path in paths))
    with tempfile.TemporaryDirectory(prefix="authorizerd-verify-") as folder:
        out = Path(folder, "out")
        code = submit(VerifyPlan(logs=logs, out=str(out), judge=judge.packed), options)
        if code != EXIT_DONE:
            sys.exit(code)
        return msgspec.json.decode((out / RESULT).read_bytes(), type=JudgedParts), left_out
