"""The options of every job: the Spark that runs it, and its resources.

**Invariant:** ``--conf`` overrides every setting that this package chooses. It is the way to change
anything that has no option here.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from authorizerd.cli.program.flags import add_switch, add_value
from authorizerd.replay.errors import NeedsSparkError, TrafficError
from authorizerd.replay.messages import say
from authorizerd.replay.options import parse_file, parse_path, refuse

REMOTE_VARIABLE: Final = "SPARK_REMOTE"
"""Spark's own variable for the URL of a server of Spark Connect."""

_ADVICE: Final = {
    "--driver-memory": "use --conf spark.driver.memory=SIZE",
    "--executor-cores": "use --conf spark.executor.cores=N",
    "--executor-memory": "use --conf spark.executor.memory=SIZE",
    "--num-executors": "use --conf spark.executor.instances=N",
}
"""Flags of spark-submit that this command does not have, since each has a setting."""


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """How a job is submitted. None means Spark's default; ``conf`` contains ``KEY=VALUE`` texts.

    ``remote`` is the URL of a server of Spark Connect, which may contain a token.
    """

    master: str = "local[*]"
    deploy_mode: str = "client"
    conf: tuple[str, ...] = ()
    archives: str | None = None
    spark_home: Path | None = None
    python: str | None = None
    only_print: bool = False
    verbose: bool = False
    remote: str | None = field(default=None, repr=False)

    @property
    def is_local(self) -> bool:
        """True if the driver and the workers are processes of this machine."""
        is_local = self.master == "local" or self.master.startswith("local[")
        return is_local and self.remote is None


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of every job."""
    parser.set_defaults(advice=_ADVICE)
    group = parser.add_argument_group("Spark")
    group.add_argument("--master", default="local[*]", help="default %(default)s")
    text = (
        "use a running Spark server through Spark Connect, without Java on this machine; "
        f"default URL: the environment variable {REMOTE_VARIABLE}, which hides a token"
    )
    add_value(group, "--remote", _remote, "sc://HOST:PORT", text, nargs="?", const=REMOTE_VARIABLE)
    group.add_argument("--deploy-mode", default="client", choices=("client", "cluster"))
    group.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_setting,
        metavar="KEY=VALUE",
        help="a Spark setting, such as spark.executor.memory=4g; may be repeated",
    )
    text = "archives to unpack in each executor's working directory"
    add_value(group, "--archives", parse_path, "FILE#NAME,…", text)
    text = "directory of Spark 4.1 or later; default SPARK_HOME, or else the installed pyspark"
    add_value(group, "--spark-home", parse_file, "DIR", text)
    add_value(group, "--python", parse_path, "PATH", "the Python of the executors")
    text = "print the spark-submit command and keep its files, but do not run it"
    add_switch(group, "--print", text, dest="only_print")
    group.add_argument("--verbose", action="store_true", help="show all output of Spark")


def read_spark_options(parsed: argparse.Namespace) -> SparkOptions:
    """Return the values of the options that ``add_spark_arguments`` added."""
    values = {each.name: getattr(parsed, each.name) for each in fields(SparkOptions)}
    return SparkOptions(**values | {"conf": tuple(parsed.conf)})


def refusal(options: SparkOptions) -> str | None:
    """Return why the options contradict each other, or None.

    Source: Spark 4's SparkSubmit, which reports a wrong deploy mode with a stack trace.
    """
    if options.remote is not None and options != SparkOptions(
        remote=options.remote, only_print=options.only_print, verbose=options.verbose
    ):
        return "--remote: cannot be combined with other Spark options: the server decides them"
    if options.deploy_mode == "cluster" and not re.match("yarn|k8s:", options.master):
        return (
            f"--deploy-mode cluster: --master {options.master} cannot run a Python driver in the "
            "cluster; only yarn and k8s can"
        )
    return None


def why_spark(parsed: argparse.Namespace, options: SparkOptions) -> str | None:
    """Return why ``--engine`` and other options choose Spark, or None if they do not."""
    is_configured = options != SparkOptions(verbose=options.verbose)
    if parsed.engine == "local" and is_configured:
        refuse(parsed, "--engine: local uses no Spark, so it cannot be combined with its options")
    if parsed.engine == "spark":
        return "--engine spark"
    return "options of Spark were given" if is_configured else None


def run_or_submit(
    parsed: argparse.Namespace,
    options: SparkOptions,
    run_here: Callable[[], int],
    submit: Callable[[], int],
) -> int:
    """Run a command here, or on Spark if it is chosen or needed; return the exit code.

    Raises:
        TrafficError: ``--engine local`` was given, and ``run_here`` needs Spark.
    """
    try:
        if (needed := why_spark(parsed, options)) is not None:
            raise NeedsSparkError(needed)
        return run_here()
    except NeedsSparkError as error:
        if parsed.engine == "local":
            raise TrafficError(f"{error.reason}: use --engine spark") from error
        say(f"engine: spark ({error.reason})")
    return submit()


def _remote(text: str) -> str:
    url = os.environ.get(REMOTE_VARIABLE, "") if text == REMOTE_VARIABLE else text
    if not re.match("sc://[^/]", url):
        raise argparse.ArgumentTypeError(
            f"expected sc://HOST:PORT here or in {REMOTE_VARIABLE}, found another text (not shown, "
            "since it may hold a token)"
        )
    return url


def _setting(text: str) -> str:
    if not text.partition("=")[0] or "=" not in text:
        raise argparse.ArgumentTypeError(
            "expected KEY=VALUE, found another text (not shown, since it may hold a secret)"
        )
    return text
