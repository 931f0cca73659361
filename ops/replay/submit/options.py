"""The options of every job: the Spark that runs it, and its resources.

**Invariant:** ``--conf`` overrides every setting that this package chooses. It is the way to change
anything that has no option here.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MASTER: Final = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+")
_MEMORY: Final = re.compile(r"\d+[kmgt]", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """How a job is submitted. None means Spark's default; ``conf`` contains ``KEY=VALUE`` texts."""

    master: str = "local[*]"
    deploy_mode: str = "client"
    conf: tuple[str, ...] = ()
    archives: str | None = None
    spark_home: Path | None = None
    python: str | None = None
    driver_memory: str | None = None
    executor_memory: str | None = None
    executor_cores: int | None = None
    num_executors: int | None = None
    only_print: bool = False
    verbose: bool = False

    @property
    def is_local(self) -> bool:
        """True if the driver and the workers are processes of this machine."""
        return self.master == "local" or self.master.startswith("local[")


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of every job."""
    group = parser.add_argument_group("Spark")
    group.add_argument("--master", default="local[*]", type=_master, help="default %(default)s")
    group.add_argument("--deploy-mode", default="client", choices=("client", "cluster"))
    group.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_setting,
        metavar="KEY=VALUE",
        help="a Spark setting; may be repeated",
    )
    group.add_argument(
        "--archives",
        metavar="FILE#NAME,…",
        help="archives to unpack in each executor's working directory",
    )
    group.add_argument(
        "--spark-home",
        type=Path,
        metavar="DIR",
        help="directory of Spark 4.1 or later; default SPARK_HOME, or else the installed pyspark",
    )
    group.add_argument("--python", metavar="PATH", help="the Python of the executors")
    group.add_argument("--driver-memory", type=_memory, metavar="SIZE", help="default 2g if local")
    group.add_argument("--executor-memory", type=_memory, metavar="SIZE")
    group.add_argument("--executor-cores", type=_count, metavar="N")
    group.add_argument("--num-executors", type=_count, metavar="N")
    group.add_argument(
        "--print",
        action="store_true",
        dest="only_print",
        help="print the spark-submit command and keep its files, but do not run it",
    )
    group.add_argument("--verbose", action="store_true", help="show all output of Spark")


def read_spark_options(parsed: argparse.Namespace) -> SparkOptions:
    """Return the values of the options that ``add_spark_arguments`` added."""
    return SparkOptions(
        master=parsed.master,
        deploy_mode=parsed.deploy_mode,
        conf=tuple(parsed.conf),
        archives=parsed.archives,
        spark_home=parsed.spark_home,
        python=parsed.python,
        driver_memory=parsed.driver_memory,
        executor_memory=parsed.executor_memory,
        executor_cores=parsed.executor_cores,
        num_executors=parsed.num_executors,
        only_print=parsed.only_print,
        verbose=parsed.verbose,
    )


def refusal(options: SparkOptions) -> str | None:
    """Return why Spark cannot run a Python job with these options, or None if it can.

    Source: Spark 4's SparkSubmit, which reports it with a stack trace.
    """
    if options.deploy_mode == "cluster" and not re.match("yarn|k8s:", options.master):
        return (
            f"--deploy-mode cluster: --master {options.master} cannot run a Python driver in the "
            "cluster; only yarn and k8s can"
        )
    return None


def _master(text: str) -> str:
    if _MASTER.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            f"expected local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT, found {text!r}"
        )
    return text


def _setting(text: str) -> str:
    key, equals, _ = text.partition("=")
    if not key or not equals:
        found = "without a key" if equals else "without '='"
        raise argparse.ArgumentTypeError(
            f"expected KEY=VALUE, found a text {found} (not shown, since it may hold a secret)"
        )
    return text


def _memory(text: str) -> str:
    if _MEMORY.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"expected a size such as 512m or 4g, found {text!r}")
    return text


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text!r}")
    return int(text)
