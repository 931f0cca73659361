"""Find the Java that Spark would use, and check its version.

**Invariant:** the checked program is the one that ``spark-class`` starts. Without this check, Spark
fails late, with a message that does not name the cause.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from authorizerd.replay.submit.errors import SubmissionError

JAVA_VERSION_MIN: Final = 17

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SECONDS_MAX: Final = 60


def find_java(environment: Mapping[str, str]) -> Path:
    """Return the ``java`` that Spark would start, of version 17 or later.

    Raises:
        SubmissionError: Java is missing, does not run, or is older.

    Source: Spark 4's ``bin/spark-class``: JAVA_HOME takes precedence over PATH.
    """
    java = _named_java(environment)
    printed = _printed_version(java, environment)
    found = _VERSION.search(printed)
    if found is None:
        said = printed.strip().partition("\n")[0]
        raise SubmissionError(f"{java} -version: expected a version, found {said!r}")
    if int(found[1]) < JAVA_VERSION_MIN:
        raise SubmissionError(
            f"{java} is Java {found[1]}; Spark 4 needs {JAVA_VERSION_MIN} or later: set JAVA_HOME"
        )
    return java


def _named_java(environment: Mapping[str, str]) -> Path:
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not java.is_file():
            raise SubmissionError(f"JAVA_HOME is {home}, but {java} does not exist")
        return java
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise SubmissionError(
            f"Java not found: install Java {JAVA_VERSION_MIN} or later, or set JAVA_HOME"
        )
    return Path(found)


def _printed_version(java: Path, environment: Mapping[str, str]) -> str:
    try:
        ran = subprocess.run(
            [java, "-version"],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SubmissionError(f"{java} does not run: {error}") from error
    # Java prints its version to standard error.
    return ran.stderr + ran.stdout
