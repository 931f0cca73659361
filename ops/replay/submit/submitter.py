"""Submit a job: from its plan to the exit code of spark-submit.

**Invariant:** a missing Spark, Java or file is reported in one line before anything starts.
"""

from __future__ import annotations

import os
import sys
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
from authorizerd.replay.submit.archive import make_archive
from authorizerd.replay.submit.line import REDACTED, Line, connect_line, spark_submit_line
from authorizerd.replay.submit.options import REMOTE_VARIABLE, SparkOptions
from authorizerd.replay.submit.prerequisites import (
    check_connect,
    check_files,
    check_java,
    find_spark_home,
)
from authorizerd.replay.submit.process import Sorter, StoppedError, run_submission
from authorizerd.replay.submit.work_directory import WorkDirectory, make_work_directory

_RESULTS: Final = (EXIT_DONE, EXIT_DENIED, EXIT_NO_EVIDENCE)
_SIGNAL_EXIT: Final = 128


def submit(plan: Plan, options: SparkOptions) -> int:
    """Run the job of ``plan`` and return its exit code, or print the line with ``only_print``.

    Raises:
        SubmissionError: the job cannot be started.
    """
    environment = dict(os.environ)
    environment["PYTHONSAFEPATH"] = "1"  # do not import a folder named "authorizerd" here
    environment.pop(REMOTE_VARIABLE, None)  # PySpark would use its server in place of a master
    if options.remote is None:
        spark_home = find_spark_home(options.spark_home, environment)
        environment["SPARK_HOME"] = str(spark_home)
        if not options.only_print:
            check_files(options)
            check_java(environment)
    elif not options.only_print:
        check_connect(options.remote)
    archive = make_archive()
    try:
        files = make_work_directory(plan, archive)
    except OSError as error:
        raise SubmissionError(f"cannot write the job's files: {error}") from error
    if options.remote is None:
        name = str(plan.__struct_config__.tag)
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
    if isinstance(plan, FollowPlan) and options.deploy_mode == "client":
        environment[STOP_FILE] = str(files.stop)
    return _run(line, environment, files, options)


def _run(
    line: Line, environment: dict[str, str], files: WorkDirectory, options: SparkOptions
) -> int:
    is_verbose = options.verbose or options.deploy_mode == "cluster"
    is_log_wanted = False
    try:
        code, sorter = run_submission(
            line.words, environment | line.variables, files.log, verbose=is_verbose
        )
        is_log_wanted = _report(code, sorter, files)
    except StoppedError as stopped:
        _say("stopped")
        return _SIGNAL_EXIT + stopped.number
    except OSError as error:
        raise SubmissionError(f"cannot run spark-submit: {error}") from error
    finally:
        if is_log_wanted:
            files.remove_but_log()
        else:
            files.remove()
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
