from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from authorizerd.replay.spark import probe
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.probe import Finding, missing_modules, probe_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Cluster:
    """A Spark context whose executors give the listed answers, one round after the other."""

    def __init__(self, executors: int, rounds: list[list[Finding]], master: str = "yarn") -> None:
        self.sparkContext = self
        self.master = master
        self.defaultParallelism = executors
        self.rounds = rounds
        self.asked = 0
        self._jsc = SimpleNamespace(sc=lambda: self)
        self.executors = executors

    def getExecutorMemoryStatus(self) -> Cluster:
        return self

    def size(self) -> int:
        return self.executors + 1

    def parallelize(self, _: object, tasks: int) -> Cluster:
        assert tasks >= 2 * self.executors
        return self

    def mapPartitions(self, _: object) -> Cluster:
        return self

    def collect(self) -> list[Finding]:
        self.asked += 1
        return self.rounds[min(self.asked, len(self.rounds)) - 1]


def asked(cluster: Cluster) -> int:
    probe_executors(cast("SparkSession", cluster))
    return cluster.asked


ONE = Finding("one", 10, "/env/bin/python", ())
TWO = Finding("two", 10, "/env/bin/python", ())


def test_every_executor_is_probed_except_a_local_one() -> None:
    assert asked(Cluster(2, [], master="local[2]")) == 0
    assert asked(Cluster(2, [[ONE, TWO]])) == 1
    assert asked(Cluster(2, [[ONE], [ONE], [TWO]])) == 3
    assert asked(Cluster(2, [[ONE]])) == 5


def test_missing_modules_are_named_with_host_and_python() -> None:
    bare = Finding("two", 11, "/usr/bin/python3", ("Python 3.11", "pyarrow"))
    with pytest.raises(JobError) as caught:
        asked(Cluster(3, [[ONE, bare, bare._replace(process=12)]]))
    assert str(caught.value) == (
        "the executor's Python on two, /usr/bin/python3, lacks Python 3.11, pyarrow"
    )


def test_module_that_does_not_load_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_wheel.py").write_text("raise ImportError('no such symbol')")
    monkeypatch.syspath_prepend(tmp_path)
    names = ("json", "broken_wheel", "not_there_at_all")
    assert missing_modules(names) == ("broken_wheel", "not_there_at_all")
    monkeypatch.setattr(probe, "PYTHON_MIN", (sys.version_info.major + 1, 0))
    assert missing_modules(("json",)) == ("Python 4.0",)
