"""The Java that Spark runs on: which one it would take, and whether that will do.

**Invariant:** what is looked at is what ``spark-class`` would start. Without a look Spark fails
late, in words that name no cause.
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
    """Return the ``java`` of version 17 or later that Spark would start.

    Raises:
        SubmissionError: there is none, it does not run, or it is older.
    Source:  Spark 4's ``bin/spark-class``: JAVA_HOME wins over PATH.
    """
    java = _named_java(environment)
    printed = _printed_version(java, environment)
    found = _VERSION.search(printed)
    if found is None:
        said = printed.strip().partition("\n")[0]
        raise SubmissionError(f"{java} -version does not tell its version: {said!r}")
    if int(found[1]) < JAVA_VERSION_MIN:
        raise SubmissionError(
            f"{java} is Java {found[1]}; Spark 4 needs {JAVA_VERSION_MIN} or later (set JAVA_HOME)"
        )
    return java


def _named_java(environment: Mapping[str, str]) -> Path:
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not java.is_file():
            raise SubmissionError(f"JAVA_HOME is {home}, but {java} is not there")
        return java
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise SubmissionError(
            f"no java found: install Java {JAVA_VERSION_MIN} or later, or set JAVA_HOME"
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
    return ran.stderr + ran.stdout
