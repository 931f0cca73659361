"""The Spark that submits a job: which one, and of what version.

**Invariant:** nothing is started to find out; a Spark tells its version by the name of its core's
jar.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from authorizerd.replay.submit.errors import SubmissionError

SPARK_VERSION: Final = "4"

_CORE_JAR: Final = re.compile(r"spark-core_[\d.]+-((\d+)\..+)\.jar")


def find_spark_home(named: Path | None, environment: Mapping[str, str]) -> Path:
    """Return the home of a Spark 4: the named one, SPARK_HOME's, or the installed pyspark's.

    Raises:
        SubmissionError: there is none, or it is of another version.
    """
    home, origin = _home(named, environment)
    if not os.access(home / "bin" / "spark-submit", os.X_OK):
        raise SubmissionError(f"{origin} is {home}, which holds no bin/spark-submit")
    version = spark_version(home)
    if version is None:
        raise SubmissionError(f"{origin} is {home}, whose jars/ holds no Spark")
    if version.partition(".")[0] != SPARK_VERSION:
        raise SubmissionError(
            f"{origin} is {home}, which is Spark {version}; this needs Spark {SPARK_VERSION}.x"
        )
    return home


def spark_version(home: Path) -> str | None:
    """Return the version of the Spark at ``home``, None where there is none."""
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
            "no Spark found: install authorizerd[replay], set SPARK_HOME or give --spark-home"
        )
    return Path(installed.origin).parent, "pyspark"
