"""Tests that need Spark."""

import os

import pytest

from authorizerd.replay.errors import SubmissionError
from authorizerd.replay.submit.prerequisites import check_java, find_spark_home

ENGINES = (
    "local",
    pytest.param(
        "spark",
        marks=[
            pytest.mark.replay,
            pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
        ],
    ),
)
"""Parameters of a fixture that gets the fixture ``spark`` for the second one."""


def require_spark() -> None:
    """Skip the test, or the module that calls this, if pyspark or its Java is missing."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    try:
        check_java(os.environ)
        find_spark_home(None, os.environ)
    except SubmissionError as error:
        pytest.skip(str(error), allow_module_level=True)
