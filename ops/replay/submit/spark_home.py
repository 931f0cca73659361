"""Find the Spark that submits a job, and check its version.

**Invariant:** the check starts no program: the name of the spark-core jar contains the version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from authorizerd.replay.submit.errors import SubmissionError

SPARK_MIN: Final = (4, 1)
_SPARK_BELOW: Final = (5,)

_CORE_JAR: Final = re.compile(r"spark-core_[\d.]+-(\d+\.\d+.*)\.jar")


def find_spark_home(named: Path | None, environment: Mapping[str, str]) -> Path:
    """Return the home of Spark: the named one, SPARK_HOME's, or the installed pyspark's.

    Raises:
        SubmissionError: there is no Spark, or it is not Spark 4.1 or a later 4.x.
    """
    home, origin = _home(named, environment)
    if not os.access(home / "bin" / "spark-submit", os.X_OK):
        raise SubmissionError(f"{origin} is {home}, but {home}/bin/spark-submit does not exist")
    version = spark_version(home)
    if version is None:
        raise SubmissionError(f"{origin} is {home}, but no Spark was found in {home}/jars")
    major_and_minor = tuple(int(number) for number in version.split(".")[:2])
    if not SPARK_MIN <= major_and_minor < _SPARK_BELOW:
        raise SubmissionError(
            f"{origin} is {home}, with Spark {version}: expected Spark 4.1 or a later 4.x"
        )
    return home


def spark_version(home: Path) -> str | None:
    """Return the version of the Spark at ``home``; None if there is no Spark."""
    found = [_CORE_JAR.fullmatch(path.name) for path in home.glob("jars/spark-core_*.jar")]
    return next((match[1] for match in found if match is not None), None)


def _home(named: Path | None, environment: Mapping[str, str]) -> tuple[Path, str]:
    if named is not None:
        return named.absolute(), "--spark-home"
    if environment.get("SPARK_HOME"):
        return Path(environment["SPARK_HOME"]).absolute(), "SPARK_HOME"
    installed = find_spec("pyspark")
    if installed is None or installed.origin is None:
        raise SubmissionError(
            "Spark not found: install authorizerd[replay], set SPARK_HOME, or use --spark-home"
        )
    return Path(installed.origin).parent, "pyspark"
