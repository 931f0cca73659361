"""The spark-submit command line of a job.

**Invariant:** the line is complete. Pasted into a shell, it runs the same job, provided that the
files that it names exist and that the user has put the redacted secrets back.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from authorizerd.replay.submit.options import SparkOptions
from authorizerd.replay.submit.work_directory import PLAN_NAME, WorkDirectory

LOCAL_DRIVER_MEMORY: Final = "2g"
REDACTED: Final = "*********(redacted)"
"""Spark's own pages show the same text in place of a secret."""

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_SECRET: Final = re.compile("secret|password|token|access[.]?key|credential", re.IGNORECASE)
"""Matches keys and values that may be secret: Spark's ``spark.redaction.regex``, Hadoop's keys."""
_DEFAULTS: Final = {"spark.ui.showConsoleProgress": "false"}
_LOCAL_DEFAULTS: Final = {  # a local job needs no connections from other machines
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",  # the default of 200 takes longer than most local jobs
}
_DEFAULTS_OF: Final = {
    "load": {
        # A task that runs twice would send its load twice.
        "spark.speculation": "false",
        "spark.task.maxFailures": "1",
        "spark.stage.maxConsecutiveAttempts": "1",
        # Wait 20 s for enough slots; Spark's default is ten minutes.
        "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
        "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "20",
    },
}


def spark_submit_line(
    options: SparkOptions, files: WorkDirectory, spark_home: Path, name: str
) -> list[str]:
    """Return the words of the line that runs the job ``name`` with the plan in ``files``."""
    named = {key: value for key, _, value in (setting.partition("=") for setting in options.conf)}
    defaults = _DEFAULTS | _LOCAL_DEFAULTS if options.is_local else _DEFAULTS
    settings = defaults | _DEFAULTS_OF.get(name, {}) | _python_settings(options) | named
    if options.deploy_mode == "client":
        logging = f"-Dlog4j2.configurationFile={files.logging.as_uri()}"
        settings[_JAVA_OPTIONS] = " ".join(filter(None, (logging, named.get(_JAVA_OPTIONS))))
    line = [
        *(str(spark_home / "bin" / "spark-submit"), "--name", f"authorizerd replay {name}"),
        *("--master", options.master, "--deploy-mode", options.deploy_mode),
    ]
    for key, value in settings.items():
        line += ["--conf", f"{key}={value}"]
    for flag, value in _flags(options, settings).items():
        line += [flag, value]
    line += ["--py-files", str(files.archive), "--files", str(files.plan)]
    return [*line, str(files.entry), PLAN_NAME]


def show_line(line: Sequence[str]) -> str:
    """Return the line in a shell's syntax, with settings that may be secret redacted."""
    shown = list(line)
    for place, word in enumerate(shown[1:], start=1):
        if shown[place - 1] == "--conf" and _SECRET.search(word):
            shown[place] = f"{word.partition('=')[0]}={REDACTED}"
    return shlex.join(shown)


def _python_settings(options: SparkOptions) -> dict[str, str]:
    """Return the settings that select the job's Python; a local job uses this process's."""
    settings = {}
    if options.deploy_mode == "client":
        settings["spark.pyspark.driver.python"] = sys.executable
    python = options.python or (sys.executable if options.is_local else None)
    if python is not None:
        settings["spark.pyspark.python"] = python
    return settings


def _flags(options: SparkOptions, settings: dict[str, str]) -> dict[str, str]:
    memory = options.driver_memory
    if memory is None and options.is_local and "spark.driver.memory" not in settings:
        memory = LOCAL_DRIVER_MEMORY
    flags = {
        "--driver-memory": memory,
        "--executor-memory": options.executor_memory,
        "--executor-cores": options.executor_cores,
        "--num-executors": options.num_executors,
        "--archives": options.archives,
    }
    return {flag: str(value) for flag, value in flags.items() if value is not None}
