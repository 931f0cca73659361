from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from authorizerd.replay.spark import probe
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.probe import (
    Finding,
    look_around,
    missing_modules,
    probe_executors,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that probes executors with the listed answers, and counts the rounds."""

    def ask(*rounds: set[Finding], master: str = "yarn") -> int:
        asked: list[set[Finding]] = []

        def look_around(_: object) -> set[Finding]:
            asked.append(rounds[min(len(asked), len(rounds) - 1)])
            return asked[-1]

        monkeypatch.setattr(probe, "look_around", look_around)
        session = SimpleNamespace(conf={"spark.master": master})
        probe_executors(cast("SparkSession", session))
        return len(asked)

    return ask


ONE = Finding("one", 10, "/env/bin/python", ())
TWO = Finding("two", 10, "/env/bin/python", ())


def test_executors_are_probed_until_no_new_one_is_found(asked: Callable[..., int]) -> None:
    assert asked(set(), master="local[2]") == 0
    assert asked({ONE, TWO}) == 2
    assert asked({ONE}, {TWO}, {ONE}) == 3
    assert asked(*({ONE._replace(process=number)} for number in range(9))) == 5


def test_missing_modules_are_named_with_host_and_python(asked: Callable[..., int]) -> None:
    bare = Finding("two", 11, "/usr/bin/python3", ("Python 3.11", "pyarrow"))
    with pytest.raises(JobError) as caught:
        asked({ONE}, {ONE, bare, bare._replace(process=12)})
    assert str(caught.value) == (
        "the executor's Python on two, /usr/bin/python3, lacks Python 3.11, pyarrow"
    )


def test_tasks_report_their_python(spark: SparkSession) -> None:
    (found,) = look_around(spark)
    assert (found.python, found.missing) == (sys.executable, ())


def test_module_that_does_not_load_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_wheel.py").write_text("raise ImportError('no such symbol')")
    monkeypatch.syspath_prepend(tmp_path)
    names = ("json", "broken_wheel", "not_there_at_all")
    assert missing_modules(names) == ("broken_wheel", "not_there_at_all")
    monkeypatch.setattr(probe, "PYTHON_MIN", (sys.version_info.major + 1, 0))
    assert missing_modules(("json",)) == ("Python 4.0",)
