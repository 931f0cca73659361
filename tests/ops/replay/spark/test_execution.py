"""How Spark runs our code: its modules, what the driver prints, and how it ends."""

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from authorizerd.replay import application
from authorizerd.replay.acl_set import AclSet, digest_of
from authorizerd.replay.errors import JobError
from authorizerd.replay.plans import UsagePlan
from authorizerd.replay.spark.driver_output import MessageStream, trace, trace_warning
from tests.support.fixture_types import Capture, MonkeyPatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_only_overwrite_replaces_results(
    spark: SparkSession, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    ran: list[UsagePlan] = []

    def run(_: SparkSession, plan: UsagePlan) -> int:
        assert not (tmp_path / "out/usage.json").exists()
        ran.append(plan)
        return 3

    job = ModuleType("authorizerd.replay.usage.job")
    monkeypatch.setattr(job, "run", run, raising=False)
    monkeypatch.setitem(sys.modules, "authorizerd.replay.usage.job", job)
    acls = AclSet(source="none", acls=(), digest=digest_of(()))
    plan = UsagePlan(events="x", out=str(tmp_path / "out"), acls=acls)
    assert application.run_plan(spark, plan) == 3
    (tmp_path / "out").mkdir()
    assert application.run_plan(spark, plan) == 3
    (tmp_path / "out/usage.json").write_text("{}")
    with pytest.raises(JobError, match=r"out: not empty; --overwrite replaces"):
        application.run_plan(spark, plan)
    assert (tmp_path / "out/usage.json").exists()
    replacing = replace(plan, overwrite=True)
    assert application.run_plan(spark, replacing) == 3
    assert ran == [plan, plan, replacing]


def test_progress_is_printed_while_stages_run(spark: SparkSession, capsys: Capture) -> None:
    from authorizerd.replay.spark.progress import printing_progress, stages_text

    def wait(rows: object) -> object:
        import time

        time.sleep(1)
        return rows

    assert stages_text(spark.sparkContext) == ""
    with printing_progress(spark, seconds_between=0.05):
        spark.sparkContext.parallelize([1, 2, 3], 3).mapPartitions(wait).count()  # type: ignore[arg-type]
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("authorizerd replay: running: stage ") for line in lines)
    assert any(" of 3 tasks" in line for line in lines)


def test_jobs_are_described_by_the_blocks_around_their_action(spark: SparkSession) -> None:
    from authorizerd.replay.spark.description import describe

    context = spark.sparkContext._jsc.sc()

    def run_job() -> str:
        spark.range(1).collect()
        context.listenerBus().waitUntilEmpty()
        description: str = context.statusStore().jobsList(None).apply(0).description().toString()
        return description

    with describe(spark, "ingest"):
        with describe(spark, "write events"):
            assert run_job() == "Some(ingest: write events)"
        assert run_job() == "Some(ingest)"
    assert run_job() == "None"


def test_each_line_to_standard_error_gets_one_prefix() -> None:
    out = io.StringIO()
    print("one", 2, "three\nfour", file=MessageStream(out))
    stream = MessageStream(out)
    for piece in ("authorizerd replay: a", "lready\nun", "finished"):
        stream.write(piece)
    assert out.getvalue().splitlines() == [
        "authorizerd replay: one 2 three",
        "authorizerd replay: four",
        "authorizerd replay: already",
    ]


def test_traces_and_warnings_go_to_the_log(capsys: Capture, monkeypatch: MonkeyPatch) -> None:
    trace("Traceback:\n  File x\n")
    monkeypatch.setattr(warnings, "showwarning", trace_warning)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning("old", UserWarning, "file.py", 7, sys.stderr)
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.splitlines()[:3] == [
        "authorizerd replay trace: Traceback:",
        "authorizerd replay trace:   File x",
        "authorizerd replay trace: file.py:7: UserWarning: old",
    ]


def test_module_that_does_not_load_is_missing(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    (tmp_path / "broken_wheel.py").write_text("raise ImportError('no such symbol')")
    monkeypatch.syspath_prepend(tmp_path)
    names = ("json", "broken_wheel", "not_there_at_all")
    assert application.missing_modules(names) == ("broken_wheel", "not_there_at_all")
    monkeypatch.setattr(application, "PYTHON_MIN", (sys.version_info.major + 1, 0))
    assert application.missing_modules(("json",)) == ("Python 4.0",)
