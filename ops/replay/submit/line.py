"""The spark-submit line of a job.

Invariant: it is complete. Pasted into a shell beside the files that it names, it runs the same job,
once the secrets that are not shown are put back.
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
"""What Spark's own pages show in place of a secret."""

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_SECRET: Final = re.compile("secret|password|token|access[.]?key|credential", re.IGNORECASE)
"""``spark.redaction.regex``, looked for in keys and values, and what Hadoop's keys add to it."""
_DEFAULTS: Final = {"spark.ui.showConsoleProgress": "false"}
_LOCAL_DEFAULTS: Final = {  # what one machine does by itself no other needs to reach
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",  # 200, the default, take longer than most local jobs
}
_DEFAULTS_OF: Final = {  # a task that ran twice would send its load twice
    "load": {"spark.speculation": "false", "spark.task.maxFailures": "1"},
}


def spark_submit_line(
    options: SparkOptions, files: WorkDirectory, spark_home: Path, name: str
) -> list[str]:
    """Return the words of the line that runs the job ``name`` by the plan in ``files``."""
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
    """Return the line as a shell reads it, without the values of settings that may be secrets."""
    shown = list(line)
    for place, word in enumerate(shown[1:], start=1):
        if shown[place - 1] == "--conf" and _SECRET.search(word):
            shown[place] = f"{word.partition('=')[0]}={REDACTED}"
    return shlex.join(shown)


def _python_settings(options: SparkOptions) -> dict[str, str]:
    """Return which Pythons run the job: on this machine, unless told otherwise, this one."""
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
