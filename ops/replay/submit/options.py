"""The options that every job has: where Spark runs it, and with what.

**Invariant:** what is not named here can be said with ``--conf``, which wins over what is chosen
here.
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
    """How a job is submitted; None is Spark's own default. ``conf`` holds ``KEY=VALUE``."""

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
        """Whether driver and workers are this machine's processes."""
        return self.master == "local" or self.master.startswith("local[")


def add_spark_arguments(parser: argparse.ArgumentParser) -> None:
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
        "--archives", metavar="FILE#NAME,…", help="archives to unpack beside each executor"
    )
    group.add_argument(
        "--spark-home",
        type=Path,
        metavar="DIR",
        help="a Spark 4; default SPARK_HOME, or the installed pyspark",
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
        help="print the spark-submit line, keep its files, run nothing",
    )
    group.add_argument("--verbose", action="store_true", help="show all output of Spark")


def spark_options_of(parsed: argparse.Namespace) -> SparkOptions:
    """Return the options of a parser that ``add_spark_arguments`` was given."""
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
    """Return why Spark would not run a Python job this way, or None.

    Source:  Spark 4's SparkSubmit, which says so with a stack trace.
    """
    if options.deploy_mode == "cluster" and not re.match("yarn|k8s:", options.master):
        return f"--deploy-mode cluster: --master {options.master} runs Python drivers here only"
    return None


def _master(text: str) -> str:
    if _MASTER.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is none of local[N], spark://HOST:PORT, yarn, k8s://HOST:PORT"
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 512m or 4g")
    return text


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)
