"""Submit a job: from its plan to the exit code of spark-submit.

**Invariant:** a missing Spark, Java or file is reported in one line before anything starts.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from authorizerd.replay.errors import SubmissionError
from authorizerd.replay.messages import (
    EXIT_DENIED,
    EXIT_DONE,
    EXIT_FAULT,
    EXIT_NO_EVIDENCE,
    MESSAGE,
    STOP_FILE,
)
from authorizerd.replay.plans import FollowPlan, Plan
from authorizerd.replay.submit.files import WorkDirectory, make_archive, make_work_directory
from authorizerd.replay.submit.line import REDACTED, connect_line, spark_submit_line
from authorizerd.replay.submit.options import SparkOptions
from authorizerd.replay.submit.prerequisites import make_environment
from authorizerd.replay.submit.process import Sorter, StoppedError, run_submission

_RESULTS: Final = (EXIT_DONE, EXIT_DENIED, EXIT_NO_EVIDENCE)
_SIGNAL_EXIT: Final = 128


def submit(plan: Plan, options: SparkOptions) -> int:
    """Run the job of ``plan`` and return its exit code, or print the line with ``only_print``.

    Raises:
        SubmissionError: the job cannot be started.
    """
    environment = make_environment(options)
    archive = make_archive()
    try:
        files = make_work_directory(plan, archive)
    except OSError as error:
        raise SubmissionError(f"cannot write the job's files: {error}") from error
    if options.remote is None:
        spark_home, name = Path(environment["SPARK_HOME"]), str(plan.__struct_config__.tag)
        line = spark_submit_line(options, files, spark_home, name)
    else:
        line = connect_line(options.remote, files)
    shown = line.show()
    _say(f"the job's code is {archive.name}, sha256 {archive.sha256}")
    if options.only_print:
        _say(f"nothing was run; the files for this command are in {files.path}")
        if REDACTED in shown:
            _say(f"replace {REDACTED} in the line: it hides settings that may be secret")
        files.keep()
        print(shown)
        return EXIT_DONE
    _say(shown)
    environment |= line.variables
    if isinstance(plan, FollowPlan) and options.deploy_mode == "client":
        environment[STOP_FILE] = str(files.stop)
    is_verbose = options.verbose or options.deploy_mode == "cluster"
    is_log_wanted = False
    try:
        code, sorter = run_submission(line.words, environment, files.log, verbose=is_verbose)
        is_log_wanted = _report(code, sorter, files)
    except StoppedError as stopped:
        _say("stopped")
        return _SIGNAL_EXIT + stopped.number
    except OSError as error:
        raise SubmissionError(f"cannot run spark-submit: {error}") from error
    finally:
        files.remove(but_log=is_log_wanted)
    return code if code in _RESULTS else EXIT_FAULT


def _report(code: int, sorter: Sorter, files: WorkDirectory) -> bool:
    """Report a fault that the job did not report itself; return True if the log explains more."""
    is_reported = code in _RESULTS or (code == EXIT_FAULT and sorter.is_message_seen)
    if not is_reported:
        _say(f"Spark: {sorter.cause}" if sorter.cause else f"Spark ended with exit code {code}")
    is_log_wanted = sorter.is_trace_seen or not is_reported
    if is_log_wanted:
        _say(f"Spark's output is in {files.log}")
    return is_log_wanted


def _say(text: str) -> None:
    print(f"{MESSAGE}{text}", file=sys.stderr, flush=True)
