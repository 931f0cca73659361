"""Check what a submission needs: Spark, Java and named files, or a server of Spark Connect.

**Invariant:** the checked programs are those that ``spark-submit`` starts. Without these checks,
Spark fails late, with a message that does not name the cause.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from authorizerd.replay.errors import SubmissionError
from authorizerd.replay.submit.options import REMOTE_VARIABLE, SparkOptions

_SPARK_MIN: Final = (4, 1)
_SPARK_BELOW: Final = (5,)
_CORE_JAR: Final = re.compile(r"spark-core_[\d.]+-((\d+)\.(\d+).*)\.jar")
_JAVA_MIN: Final = 17
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_SECONDS_MAX: Final = 60
_ELSEWHERE: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|[*?\[{]")
"""Matches the beginning of a URI, or part of a glob: Spark resolves these."""
_CONNECT_PORT: Final = 15002
_CONNECT_SECONDS_MAX: Final = 20.0


def make_environment(options: SparkOptions) -> dict[str, str]:
    """Return the environment of the submission, and check what it needs unless it is only printed.

    Raises:
        SubmissionError: something is missing.
    """
    environment = dict(os.environ)
    environment["PYTHONSAFEPATH"] = "1"  # do not import a folder named "authorizerd" here
    environment.pop(REMOTE_VARIABLE, None)  # PySpark would use its server in place of a master
    if options.remote is None:
        environment["SPARK_HOME"] = str(find_spark_home(options.spark_home, environment))
    if options.only_print:
        return environment
    if options.remote is None:
        check_files(options)
        check_java(environment)
    else:
        check_connect(options.remote)
    return environment


def find_spark_home(named: Path | None, environment: Mapping[str, str]) -> Path:
    """Return the home of Spark: the named one, SPARK_HOME's, or the installed pyspark's.

    Raises:
        SubmissionError: there is no Spark, or it is not Spark 4.1 or a later 4.x.
    """
    if named is not None:
        home, origin = named.absolute(), "--spark-home"
    elif environment.get("SPARK_HOME"):
        home, origin = Path(environment["SPARK_HOME"]).absolute(), "SPARK_HOME"
    else:
        installed = find_spec("pyspark")
        if installed is None or installed.origin is None:
            raise SubmissionError(
                "Spark not found: install authorizerd[replay], set SPARK_HOME, or use --spark-home"
            )
        home, origin = Path(installed.origin).parent, "pyspark"
    # The jar's name contains the version, so no program has to be started.
    jars = (_CORE_JAR.fullmatch(path.name) for path in home.glob("jars/spark-core_*.jar"))
    found = next(filter(None, jars), None)
    if found is None:
        raise SubmissionError(f"{origin} is {home}, but no Spark was found in {home}/jars")
    if not _SPARK_MIN <= (int(found[2]), int(found[3])) < _SPARK_BELOW:
        raise SubmissionError(
            f"{origin} is {home}, with Spark {found[1]}: expected Spark 4.1 or a later 4.x"
        )
    return home


def check_java(environment: Mapping[str, str]) -> None:
    """Check the ``java`` that Spark would start.

    Raises:
        SubmissionError: Java is missing, does not run, or is older than 17.

    Source: Spark 4's ``bin/spark-class``: JAVA_HOME takes precedence over PATH.
    """
    home = environment.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    try:
        # Java prints its version to standard error.
        printed = subprocess.run(
            [java, "-version"],
            env=environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            timeout=_JAVA_SECONDS_MAX,
            check=False,
        ).stderr.decode(errors="replace")
    except (OSError, subprocess.SubprocessError) as error:
        raise SubmissionError(
            f"Java not found: {error}: install Java {_JAVA_MIN} or later, or set JAVA_HOME"
        ) from error
    found = _JAVA_VERSION.search(printed)
    if found is None or int(found[1]) < _JAVA_MIN:
        version = found[1] if found else "of an unknown version"
        raise SubmissionError(
            f"{java} is Java {version}; Spark 4 needs {_JAVA_MIN} or later: set JAVA_HOME"
        )


def check_files(options: SparkOptions) -> None:
    """Check the Python and the archives that are on this machine.

    Raises:
        SubmissionError: one does not exist, or the Python cannot be run.
    """
    if options.is_local and options.python is not None and shutil.which(options.python) is None:
        raise SubmissionError(
            f"--python: {options.python}: expected a program that can be run, found none"
        )
    for archive in (options.archives or "").split(","):
        path = archive.partition("#")[0]
        if path and not _ELSEWHERE.search(path) and not Path(path).is_file():
            raise SubmissionError(f"--archives: {path}: expected a file, found none")


def check_connect(url: str) -> None:
    """Check that the client of Spark Connect is installed, and that a server listens at ``url``.

    Its client would retry for ten minutes before it reports.

    Raises:
        SubmissionError: the client is missing, or the server cannot be reached.
    """
    if find_spec("pyspark") is None or find_spec("grpc") is None:
        raise SubmissionError("--remote: not installed: install authorizerd[replay-connect]")
    shown = url.partition(";")[0].rstrip("/")  # without a token
    try:
        address = urlsplit(shown)
        place = (address.hostname or "", address.port or _CONNECT_PORT)
        socket.create_connection(place, _CONNECT_SECONDS_MAX).close()
    except (OSError, ValueError) as error:
        server = shown.removeprefix("sc://").partition("/")[0]
        raise SubmissionError(
            f"--remote: sc://{server}: cannot connect: {error}: start Spark Connect there, or "
            "correct the address"
        ) from error
