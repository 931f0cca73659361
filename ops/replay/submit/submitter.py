"""Submit a job: from its plan to the exit code of spark-submit, or of Python for Spark Connect.

**Invariant:** a missing Spark, Java or file is reported in one line before anything starts. The
printed line is complete: pasted into a shell, it runs the same job, provided that the files that it
names exist and that the user has put the redacted secrets back.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from authorizerd.replay.errors import SubmissionError
from authorizerd.replay.messages import (
    EXIT_DENIED,
    EXIT_DONE,
    EXIT_FAULT,
    EXIT_NO_EVIDENCE,
    PLAN_FLAG,
    STOP_FILE,
    say,
)
from authorizerd.replay.plans import FollowPlan, Plan
from authorizerd.replay.submit.files import (
    PLAN_NAME,
    WorkDirectory,
    make_archive,
    make_work_directory,
)
from authorizerd.replay.submit.options import REMOTE_VARIABLE, SparkOptions
from authorizerd.replay.submit.prerequisites import make_environment
from authorizerd.replay.submit.process import Sorter, StoppedError, run_submission

REDACTED: Final = "*********(redacted)"
"""Spark's own web pages show the same text in place of a secret."""

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_SECRET: Final = re.compile(
    r"secret|password|pass(?:phrase)?\b|token|credential|[.]sas[.]"
    r"|(?:access|account|encryption|private)[.]?key",
    re.IGNORECASE,
)
"""Matches keys and values that may be secret: Spark's ``spark.redaction.regex``, Hadoop's keys."""
_DEFAULTS: Final = {"spark.ui.showConsoleProgress": "false"}
_LOCAL_DEFAULTS: Final = {
    # A local job needs no connections from other machines.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    # Plain paths refer to this machine, even if HADOOP_CONF_DIR names a cluster.
    "spark.hadoop.fs.defaultFS": "file:///",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",  # the default of 200 takes longer than most local jobs
}
_LOAD_DEFAULTS: Final = {
    # A task that ran twice would send its load twice.
    "spark.speculation": "false",
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    # Wait 20 s for enough slots; Spark's default is ten minutes.
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "20",
}
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
    say(f"the job's code is {archive.name}, sha256 {archive.sha256}")
    if options.only_print:
        say(f"nothing was run; the files for this command are in {files.path}")
        if REDACTED in shown:
            say(f"replace {REDACTED} in the line: it hides settings that may be secret")
        files.keep()
        print(shown)
        return EXIT_DONE
    say(shown)
    environment |= line.variables
    if isinstance(plan, FollowPlan) and options.deploy_mode == "client":
        environment[STOP_FILE] = str(files.stop)
    is_verbose = options.verbose or options.deploy_mode == "cluster"
    is_log_wanted = False
    try:
        code, sorter = run_submission(line.words, environment, files.log, verbose=is_verbose)
        is_log_wanted = _report(code, sorter, files)
    except StoppedError as stopped:
        say("stopped")
        return _SIGNAL_EXIT + stopped.number
    except OSError as error:
        raise SubmissionError(f"cannot run spark-submit: {error}") from error
    finally:
        files.remove(but_log=is_log_wanted)
    return code if code in _RESULTS else EXIT_FAULT


def _report(code: int, sorter: Sorter, files: WorkDirectory) -> bool:
    """Report a fault that the job did not report itself; return True if the log explains more."""
    if code in _RESULTS:
        return False
    is_reported = code == EXIT_FAULT and sorter.is_message_seen
    if not is_reported:
        say(f"Spark: {sorter.cause}" if sorter.cause else f"Spark ended with exit code {code}")
    is_log_wanted = sorter.is_trace_seen or not is_reported
    if is_log_wanted:
        say(f"Spark's output is in {files.log}")
    return is_log_wanted


@dataclass(frozen=True)
class Line:
    """The words of a command, and the variables that it adds to the environment."""

    words: list[str]
    variables: dict[str, str] = field(default_factory=dict)

    def show(self) -> str:
        """Return the line in shell syntax, with possible secrets redacted."""
        shown = list(self.words)
        for place, word in enumerate(shown[1:], start=1):
            if shown[place - 1] == "--conf" and _SECRET.search(word):
                shown[place] = f"{word.partition('=')[0]}={REDACTED}"
        # The part of a URL after ``;`` may be a token.
        values = {
            name: re.sub("(?s);.*", f";{REDACTED}", value) for name, value in self.variables.items()
        }
        variables = [f"{name}={shlex.quote(value)}" for name, value in values.items()]
        return " ".join([*variables, shlex.join(shown)])


def spark_submit_line(
    options: SparkOptions, files: WorkDirectory, spark_home: Path, name: str
) -> Line:
    """Return the line that runs the job ``name`` with the plan in ``files``."""
    named = {key: value for key, _, value in (setting.partition("=") for setting in options.conf)}
    settings = dict(_DEFAULTS)
    if options.is_local:
        settings |= _LOCAL_DEFAULTS
    if name == "load":
        settings |= _LOAD_DEFAULTS
    if options.deploy_mode == "client":
        settings["spark.pyspark.driver.python"] = sys.executable
    python = options.python or (sys.executable if options.is_local else None)
    if python is not None:
        settings["spark.pyspark.python"] = python
    settings |= named
    if options.deploy_mode == "client":
        logging = f"-Dlog4j2.configurationFile={files.logging.as_uri()}"
        settings[_JAVA_OPTIONS] = " ".join(filter(None, (logging, named.get(_JAVA_OPTIONS))))
    line = [
        *(str(spark_home / "bin" / "spark-submit"), "--name", f"authorizerd replay {name}"),
        *("--master", options.master, "--deploy-mode", options.deploy_mode),
    ]
    for key, value in settings.items():
        line += ["--conf", f"{key}={value}"]
    if options.archives is not None:
        line += ["--archives", options.archives]
    line += ["--py-files", str(files.archive)]
    plan = str(files.plan)
    if options.deploy_mode == "cluster":
        # YARN and Kubernetes put the file into the driver's working directory.
        line += ["--files", plan]
        plan = PLAN_NAME
    return Line([*line, str(files.entry), PLAN_FLAG, plan])


def connect_line(url: str, files: WorkDirectory) -> Line:
    """Return the line that runs the plan in ``files`` on the server of Spark Connect at ``url``."""
    words = [sys.executable, "-P", str(files.entry), PLAN_FLAG, str(files.plan)]
    # The URL goes into the environment, because every user of this machine can read command lines.
    return Line(words, {REMOTE_VARIABLE: url, "PYTHONPATH": str(files.archive)})
