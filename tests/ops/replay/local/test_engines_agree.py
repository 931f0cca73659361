"""The results of ``--logs`` and of ``--events`` without Spark are a Spark job's, byte for byte.

An oracle that shares no code with them finds the same in the logs.

Whole jobs take Spark several seconds for each set of ACLs, so few sets are tried with them, and
many with pooled sums. ``make engines`` tries more of both.
"""

from __future__ import annotations

import os
import random
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.acls.reading import read_acl_source
from authorizerd.replay.errors import UsageError
from authorizerd.replay.local.table import TableEngine
from authorizerd.replay.local.traffic import LogEngine
from authorizerd.replay.plans import IngestPlan, UsagePlan, WhatIfPlan
from authorizerd.replay.recorded import agreement
from authorizerd.replay.recorded.rows import LocalRows, Rows
from authorizerd.replay.recorded.tuples import Engine, RecordedTuple, Source
from authorizerd.replay.text import encode_json
from authorizerd.replay.usage import evaluation as usage
from authorizerd.replay.usage.evaluation import evaluate
from authorizerd.replay.usage.report import decode_usage
from authorizerd.replay.whatif import evaluation as whatif
from authorizerd.replay.whatif.evaluation import Change, change_finder, make_report
from authorizerd.replay.whatif.report import WhatIf
from tests.ops.replay.local import judged
from tests.ops.replay.local.pooled import PooledRows, PooledSource, Pools
from tests.ops.replay.local.random_runs import BEGINS_MS, DAY_MS, random_set, write_random_logs
from tests.oracles import recorded
from tests.oracles.recorded import read_logs, whatif_code

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = range(1, 1 + int(os.environ.get("REPLAY_JOBS", "1")))
SETS = int(os.environ.get("REPLAY_SETS", "8"))
POOLED_LOGS = 2


def ingest(spark: SparkSession, logs: Path, out: Path) -> IngestPlan:
    from authorizerd.replay.ingest.job import run

    plan = IngestPlan(inputs=(str(logs),), out=str(out), bad_ratio_max=0.5)
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


@pytest.mark.parametrize("seed", SEEDS)
def test_random_logs_are_evaluated_alike(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    drawn = random.Random(seed)
    write_random_logs(drawn, tmp_path / "logs")
    if seed % 2:  # a table of two runs
        ingest(spark, tmp_path / "logs" / "a.log", tmp_path / "events")
    logs = ingest(spark, tmp_path / "logs", tmp_path / "events")
    candidate = random_set(drawn)
    baseline = replace(random_set(drawn), releases=candidate.releases)
    recorded = check_whatif(spark, logs, tmp_path / "recorded", candidate, None, 1.0)
    compared = check_whatif(spark, logs, tmp_path / "compared", candidate, baseline)
    assert recorded != compared
    found = [
        check_usage(spark, logs, tmp_path / "usage" / str(number), **draw_usage(drawn))
        for number in range(2)
    ]
    assert any(found)


def report_of(plan: WhatIfPlan, source: Source, changes: Rows[Change]) -> WhatIf:
    return make_report(plan, source, source.tuples(), changes)


def evaluate_usage(plan: UsagePlan, source: Source) -> tuple[str, str]:
    """Return the contents of ``usage.json`` and ``commands.sh``, or an error and nothing."""
    try:
        report, commands = evaluate(plan, source)
    except UsageError as error:
        return str(error), ""
    return encode_json(report), commands


def test_many_random_sets_are_evaluated_alike(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((agreement, "DISAGREEING_SHARE_MAX"), (recorded, "SHARE_MAX")):
        monkeypatch.setattr(module, name, 1)  # random sets contradict the record
    drawn = random.Random(20)
    logs = []
    for number in range(POOLED_LOGS):
        write_random_logs(drawn, tmp_path / f"logs-{number}")
        logs.append(ingest(spark, tmp_path / f"logs-{number}", tmp_path / f"events-{number}"))
    asked = [read_logs(Path(each.inputs[0])) for each in logs]
    sources = [(LogEngine(each, ""), TableEngine(each.out, "")) for each in logs]
    whatifs, usages = [], []
    for number in range(SETS):
        place = number % POOLED_LOGS
        candidate, other = random_set(drawn), random_set(drawn)
        baseline = drawn.choice((None, replace(other, releases=candidate.releases)))
        plan = WhatIfPlan(events=logs[place].out, out="", candidate=candidate, baseline=baseline)
        whatifs.append((place, plan))
        usages.append((place, UsagePlan(events=logs[place].out, out="", **draw_usage(drawn))))

    pools = Pools()
    on_spark = [
        PooledSource(pools, spark, each.out, source.ingested)
        for each, (_, source) in zip(logs, sources, strict=True)
    ]
    numbers = [pools.number_tuples(spark, each.out, None) for each in logs]
    finds = [(numbers[place], change_finder(plan)) for place, plan in whatifs]
    pools.map(RecordedTuple, Change, finds)
    reports = pools.run(
        [
            partial(report_of, plan, on_spark[place], PooledRows(pools, Change, number))
            for number, (place, plan) in enumerate(whatifs)
        ]
    )
    for (place, plan), report in zip(whatifs, reports, strict=True):
        for source in sources[place]:
            changes = LocalRows(list(change_finder(plan)(source.tuples())))
            assert encode_json(report_of(plan, source, changes)) == encode_json(report)
        judged.check_whatif(report, asked[place], plan.candidate, plan.baseline)
        before = None if plan.baseline is None else judged.set_of(plan.baseline)
        code = whatif_code(asked[place], judged.set_of(plan.candidate), before)
        assert whatif.print_summary(plan, report) == code
    results = pools.run([partial(evaluate_usage, each, on_spark[place]) for place, each in usages])
    for (place, usage_plan), result in zip(usages, results, strict=True):
        for source in sources[place]:
            assert evaluate_usage(usage_plan, source) == result
        if result[1]:
            judged.check_usage(decode_usage(result[0]), asked[place], usage_plan.acls)
    assert sum(bool(commands) for _, commands in results) > SETS // 2
    assert sum(bool(each.newly_denied.tuples) for each in reports) > SETS // 2
    spark.catalog.clearCache()


def test_real_log_is_judged_alike(spark: SparkSession, real_log_dir: Path, tmp_path: Path) -> None:
    logs = ingest(spark, real_log_dir / "kafka-authorizer.log.xz", tmp_path / "events")
    acls = read_acl_source(str(real_log_dir), super_users=("User:admin",))
    written = check_whatif(spark, logs, tmp_path / "whatif", acls, None)
    assert b'"events": 13518,' in written
    whole = check_usage(spark, logs, tmp_path / "whole", acls)
    late = check_usage(spark, logs, tmp_path / "late", acls, lookback_days=6 / 86_400)
    assert whole is not None
    assert late is not None
    window = decode_usage(late).window
    assert 0 < window.allowed_events < decode_usage(whole).window.allowed_events
    assert decode_usage(late).suggestions.removals
