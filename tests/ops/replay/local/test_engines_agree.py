"""The results of ``--logs`` and of ``--events`` without Spark are a Spark job's, byte for byte.

An oracle that shares no code with them finds the same in the logs.

Whole jobs take Spark several seconds for each set of ACLs, so few sets are tried with them, and
many without Spark, whose sums ``recorded/test_rows`` compares. ``make engines`` tries more of both.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.acls.reading import read_acl_source
from authorizerd.replay.errors import UsageError
from authorizerd.replay.local.runs import ingest as ingest_here
from authorizerd.replay.local.table import TableEngine
from authorizerd.replay.local.traffic import LogEngine
from authorizerd.replay.plans import IngestPlan, UsagePlan, WhatIfPlan
from authorizerd.replay.recorded import agreement
from authorizerd.replay.recorded.rows import LocalRows
from authorizerd.replay.recorded.tuples import Engine, Source
from authorizerd.replay.text import encode_json
from authorizerd.replay.usage import evaluation as usage
from authorizerd.replay.usage.evaluation import evaluate
from authorizerd.replay.usage.report import decode_usage
from authorizerd.replay.whatif import evaluation as whatif
from authorizerd.replay.whatif.evaluation import change_finder, make_report
from authorizerd.replay.whatif.report import WhatIf
from tests.ops.replay.local import judged
from tests.ops.replay.local.random_runs import BEGINS_MS, DAY_MS, random_set, write_random_logs
from tests.oracles import recorded
from tests.oracles.recorded import read_logs, whatif_code
from tests.support.fixture_types import MonkeyPatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = range(1, 1 + int(os.environ.get("REPLAY_JOBS", "1")))
SETS = int(os.environ.get("REPLAY_SETS", "8"))
SETS_OF_LOGS = 4
"""The number of sets that are tried with the same logs."""


def ingest(spark: SparkSession | None, logs: Path, out: Path) -> IngestPlan:
    """Ingest on Spark, or without it."""
    plan = IngestPlan(inputs=(str(logs),), out=str(out), bad_ratio_max=0.5)
    if spark is None:
        assert ingest_here(plan) == 0
        return plan
    from authorizerd.replay.ingest.job import run

    assert run(spark, plan) == 0
    return plan


def check_whatif(
    spark: SparkSession,
    logs: IngestPlan,
    folder: Path,
    candidate: AclSet,
    baseline: AclSet | None,
    lookback_days: float | None = None,
) -> bytes:
    """Check that all engines write the same file with the same exit code; return the file."""
    from authorizerd.replay.whatif.job import run

    plans = {
        name: WhatIfPlan(
            events=logs.out,
            out=str(folder / name),
            candidate=candidate,
            baseline=baseline,
            lookback_days=lookback_days,
        )
        for name in ("spark", "logs", "table")
    }
    codes = (
        run(spark, plans["spark"]),
        whatif.run(plans["logs"], LogEngine(logs, plans["logs"].out)),
        whatif.run(plans["table"], TableEngine(logs.out, plans["table"].out)),
    )
    first, *others = (
        (code, (folder / name / "whatif.json").read_bytes())
        for name, code in zip(plans, codes, strict=True)
    )
    assert others == [first, first]
    by_spark, here = (pq.read_table(folder / name / "changes") for name in ("spark", "table"))
    assert by_spark.to_pylist() == here.to_pylist()
    assert not (folder / "logs" / "changes").exists()
    return first[1]


def check_usage(
    spark: SparkSession,
    logs: IngestPlan,
    folder: Path,
    acls: AclSet,
    **more: Any,  # noqa: ANN401
) -> str | None:
    """Check that all engines write the same files, or name the same reason why they cannot.

    Return the content of ``usage.json``, or None without it.
    """
    from authorizerd.replay.usage.job import run

    folder.mkdir(parents=True)
    plan = UsagePlan(events=logs.out, out=str(folder / "spark"), acls=acls, **more)
    without_spark: dict[str, Engine] = {
        "logs": LogEngine(logs, str(folder / "logs")),
        "table": TableEngine(logs.out, str(folder / "table")),
    }
    try:
        assert run(spark, plan) == 0
    except UsageError as error:
        for name, engine in without_spark.items():
            with pytest.raises(UsageError, match=re.escape(str(error))):
                usage.run(plan, engine)
            assert not (folder / name).exists()
        return None
    for name, engine in without_spark.items():
        assert usage.run(plan, engine) == 0
        for file in ("usage.json", "commands.sh"):
            assert (folder / name / file).read_bytes() == (folder / "spark" / file).read_bytes()
    return (folder / "table" / "usage.json").read_text()


def draw_usage(drawn: random.Random) -> dict[str, Any]:
    """Return an ACL set with times before and within the logs, and the settings of a plan."""
    added = drawn.choice(
        (lambda: 0, lambda: drawn.choice((None, 0, BEGINS_MS + drawn.randrange(3 * DAY_MS))))
    )
    return {
        "acls": random_set(drawn, added),
        "lookback_days": drawn.choice((None, None, 0.25, 1.0, 1.5)),
        "names_max": drawn.choice((0, 1, 2, 20)),
        "assume_in_force": drawn.random() < 0.5,
    }


@pytest.mark.nightly
@pytest.mark.parametrize("seed", SEEDS)
def test_random_logs_are_evaluated_alike(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: MonkeyPatch
) -> None:
    drawn = random.Random(seed)
    write_random_logs(drawn, tmp_path / "logs")
    if seed % 2:  # a table of two runs
        ingest(None, tmp_path / "logs" / "a.log", tmp_path / "events")
    logs = ingest(spark, tmp_path / "logs", tmp_path / "events")
    candidate = random_set(drawn)
    baseline = replace(random_set(drawn), releases=candidate.releases)
    recorded = check_whatif(spark, logs, tmp_path / "recorded", candidate, None, 1.0)
    compared = check_whatif(spark, logs, tmp_path / "compared", candidate, baseline)
    assert recorded != compared
    check_usage(spark, logs, tmp_path / "usage" / "refused", **draw_usage(drawn))
    # Most random sets contradict the record.
    monkeypatch.setattr(agreement, "DISAGREEING_SHARE_MAX", 1)
    assert check_usage(spark, logs, tmp_path / "usage" / "compared", **draw_usage(drawn))


def report_of(plan: WhatIfPlan, source: Source) -> WhatIf:
    tuples = source.tuples()
    assert isinstance(tuples, LocalRows)
    return make_report(plan, source, tuples, LocalRows(list(change_finder(plan)(tuples))))


def evaluate_usage(plan: UsagePlan, source: Source) -> tuple[str, str]:
    """Return the contents of ``usage.json`` and ``commands.sh``, or an error and nothing."""
    try:
        report, commands = evaluate(plan, source)
    except UsageError as error:
        return str(error), ""
    return encode_json(report), commands


def test_many_random_sets_are_evaluated_alike(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    for module, name in ((agreement, "DISAGREEING_SHARE_MAX"), (recorded, "SHARE_MAX")):
        monkeypatch.setattr(module, name, 1)  # random sets contradict the record
    drawn = random.Random(20)
    with_denials = with_commands = 0
    for number in range(SETS):
        if number % SETS_OF_LOGS == 0:
            folder = tmp_path / f"logs-{number}"
            write_random_logs(drawn, folder)
            logs = ingest(None, folder, tmp_path / f"events-{number}")
            asked = read_logs(folder)
            from_logs, from_table = LogEngine(logs, ""), TableEngine(logs.out, "")
        candidate, other = random_set(drawn), random_set(drawn)
        baseline = drawn.choice((None, replace(other, releases=candidate.releases)))
        plan = WhatIfPlan(events="", out="", candidate=candidate, baseline=baseline)
        report = report_of(plan, from_logs)
        assert encode_json(report_of(plan, from_table)) == encode_json(report)
        judged.check_whatif(report, asked, candidate, baseline)
        before = None if baseline is None else judged.set_of(baseline)
        assert whatif.print_summary(plan, report) == whatif_code(
            asked, judged.set_of(candidate), before
        )
        usage_plan = UsagePlan(events="", out="", **draw_usage(drawn))
        text, commands = evaluate_usage(usage_plan, from_logs)
        assert evaluate_usage(usage_plan, from_table) == (text, commands)
        if commands:
            judged.check_usage(decode_usage(text), asked, usage_plan.acls)
        with_denials += bool(report.newly_denied.tuples)
        with_commands += bool(commands)
    assert min(with_denials, with_commands) > SETS // 2


def test_real_log_is_judged_alike(spark: SparkSession, real_log_dir: Path, tmp_path: Path) -> None:
    logs = ingest(None, real_log_dir / "kafka-authorizer.log.xz", tmp_path / "events")
    acls = read_acl_source(str(real_log_dir), super_users=("User:admin",))
    written = check_whatif(spark, logs, tmp_path / "whatif", acls, None)
    assert b'"events": 13518,' in written
    late = check_usage(spark, logs, tmp_path / "late", acls, lookback_days=6 / 86_400)
    assert late is not None
    assert 0 < decode_usage(late).window.allowed_events < 9_301, "those of the whole log"
    assert decode_usage(late).suggestions.removals
