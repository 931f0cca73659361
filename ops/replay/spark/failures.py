"""Describe a fault of a job in one line, whether it comes from Python, Java or Spark SQL.

**Invariant:** the line names the cause; only the trace says what Spark was doing at the time.
"""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

CHARACTERS_MAX: Final = 1_000
SPARK_ERRORS: Final = (PySparkException, Py4JError)
"""The errors of Spark calls: Spark's own, and py4j's for Java errors without a Python class."""

_TRACEBACK: Final = "Traceback (most recent call last):\n"
_RAISED: Final = re.compile(r"^(?=\S)([\w.]+\.)?(\w+)(?:: (.*))?$", re.MULTILINE)
_THROWN: Final = re.compile(r"^(?:: |Caused by: )(?:[\w$]+\.)*([\w$]+)(?:: (.*))?$", re.MULTILINE)
_STREAM: Final = re.compile(
    r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: (.*?)(?: SQLSTATE: \w+)?$",
    re.DOTALL | re.MULTILINE,
)
"""The first line of a stream's error; the rest says why, or is a trace."""
_NO_S3: Final = re.compile(r'S3AFileSystem not found|No FileSystem for scheme "s3')
ADD_S3: Final = (
    "name files as s3a://…, and add --conf spark.jars.packages="
    "org.apache.hadoop:hadoop-aws:VERSION, with the version of hadoop-client-api in Spark's folder "
    "jars"
)
_LINE_CHARACTERS: Final = 300
_NOT_IMPORTED: Final = ("ImportError", "ModuleNotFoundError")
_OUR_PACKAGES: Final = ("authorizerd.",)


def one_line(error: BaseException) -> str:
    """Return the cause of ``error``, in at most ``CHARACTERS_MAX`` characters."""
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
        said = f"the connection to Spark's JVM was lost: {_first_line(str(error))}"
    elif isinstance(error, SPARK_ERRORS):
        text = _STREAM.sub(r"\1", str(error))
        said = _python_cause(text) or _java_cause(text) or _first_line(text)
        if _NO_S3.search(text):
            said = f"Spark has no connector for S3 ({said}): {ADD_S3}"
    elif isinstance(error, OSError) or is_named(error):
        said = _first_line(str(error)) or type(error).__name__
    else:
        said = f"{type(error).__name__}: {_first_line(str(error))}"
    return said[:CHARACTERS_MAX]


def is_named(error: BaseException) -> bool:
    """Return True for this project's own errors, whose texts are complete."""
    return type(error).__module__.startswith(_OUR_PACKAGES)


def _java_cause(text: str) -> str | None:
    """Return the message of the innermost cause in a stack trace of Java; None if there is none.

    A cause is skipped if its message only repeats the end of the message above it: ``error=2`` does
    not say which program could not be run.
    """
    name, said = "", ""
    for inner_name, inner in _THROWN.findall(text):
        if not (inner and said.endswith(inner) and len(said) <= _LINE_CHARACTERS):
            name, said = inner_name, inner
    return f"{name}: {said}" if name else None


def _python_cause(text: str) -> str | None:
    """Return the error that a Python worker raised; None if ``text`` has no traceback."""
    _, found, after = text.rpartition(_TRACEBACK)
    raised = _RAISED.search(after) if found else None
    if raised is None:
        return None
    package, name, said = raised.groups()
    if name in _NOT_IMPORTED:
        return f"the executors' Python cannot run this job: {said}: see --python and --archives"
    if said and str(package).startswith(_OUR_PACKAGES):
        return str(said)
    return f"{name}: {said}" if said else str(name)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
