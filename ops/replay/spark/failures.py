"""Describe a fault of a job in one line, whether it comes from Python, Java or Spark SQL.

**Invariant:** the line names the cause; only the trace says what Spark was doing at the time.
"""

from __future__ import annotations

import re
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

CHARACTERS_MAX: Final = 1_000

_TRACEBACK: Final = "Traceback (most recent call last):\n"
_RAISED: Final = re.compile(r"^(?=\S)(?:[\w.]+\.)?(\w+)(?:: (.*))?$", re.MULTILINE)
_LINE_CHARACTERS: Final = 300
_CAUSES_MAX: Final = 30  # a chain of Java causes may be circular
_OUR_PACKAGES: Final = ("authorizerd.",)


def one_line(error: BaseException) -> str:
    """Return the cause of ``error``, in at most ``CHARACTERS_MAX`` characters."""
    if isinstance(error, Py4JJavaError):
        said = _java_cause(error.java_exception)
    elif isinstance(error, Py4JError):
        said = f"the connection to Spark's JVM was lost: {_first_line(str(error))}"
    elif isinstance(error, PySparkException):
        said = _python_cause(str(error)) or _first_line(str(error))
    elif isinstance(error, OSError) or is_named(error):
        said = _first_line(str(error)) or type(error).__name__
    else:
        said = f"{type(error).__name__}: {_first_line(str(error))}"
    return said[:CHARACTERS_MAX]


def is_named(error: BaseException) -> bool:
    """Return True for an error of this project, whose text is complete."""
    return type(error).__module__.startswith(_OUR_PACKAGES)


def _java_cause(thrown: Any) -> str:  # noqa: ANN401 - an object of Java's
    """Return the last line of a Python traceback, or the message of the innermost cause.

    A cause is skipped if its message only repeats the end of the message above it: ``error=2`` does
    not say which program could not be run.
    """
    name, said = "", ""
    for _ in range(_CAUSES_MAX):
        text = str(thrown.getMessage())
        raised = _python_cause(text)
        if raised is not None:
            return raised
        inner = _first_line(text)
        if not (inner and said.endswith(inner) and len(said) <= _LINE_CHARACTERS):
            name, said = thrown.getClass().getSimpleName(), inner
        thrown = thrown.getCause()
        if thrown is None:
            break
    return f"{name}: {said}"


def _python_cause(text: str) -> str | None:
    """Return the error that a Python worker raised; None if ``text`` has no traceback."""
    _, found, after = text.rpartition(_TRACEBACK)
    raised = _RAISED.search(after) if found else None
    if raised is None:
        return None
    name, said = raised.groups()
    return f"{name}: {said}" if said else str(name)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
