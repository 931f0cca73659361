"""The results of ``--logs`` are those of an ingest and a job on Spark, byte for byte."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.acls.reading import read_acl_source
from authorizerd.replay.local.running import run_whatif
from authorizerd.replay.plans import IngestPlan, WhatIfPlan
from tests.ops.replay.local.random_runs import random_set, write_random_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = range(4)


def ingest(spark: SparkSession, logs: Path, out: Path) -> IngestPlan:
    from authorizerd.replay.ingest.job import run

    plan = IngestPlan(inputs=(str(logs),), out=str(out), bad_ratio_max=0.5)
    assert run(spark, plan) == 0
    return plan


def check_whatif(
    spark: SparkSession, logs: IngestPlan, folder: Path, candidate: AclSet, baseline: AclSet | None
) -> bytes:
    """Check that both engines write the same file with the same exit code; return the file."""
    from authorizerd.replay.whatif.job import run

    written = []
    for name in ("spark", "local"):
        plan = WhatIfPlan(
            events=logs.out, out=str(folder / name), candidate=candidate, baseline=baseline
        )
        code = run(spark, plan) if name == "spark" else run_whatif(logs, plan)
        written.append((code, (folder / name / "whatif.json").read_bytes()))
    assert written[0] == written[1]
    return written[1][1]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatif_of_random_logs_is_equal(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    drawn = random.Random(seed)
    write_random_logs(drawn, tmp_path / "logs")
    logs = ingest(spark, tmp_path / "logs", tmp_path / "events")
    candidate, baseline = random_set(drawn), random_set(drawn)
    recorded = check_whatif(spark, logs, tmp_path / "recorded", candidate, None)
    compared = check_whatif(spark, logs, tmp_path / "compared", candidate, baseline)
    assert recorded != compared


def test_whatif_of_the_real_log_is_equal(
    spark: SparkSession, real_log_dir: Path, tmp_path: Path
) -> None:
    logs = ingest(spark, real_log_dir / "kafka-authorizer.log.xz", tmp_path / "events")
    for super_users in ((), ("User:admin",)):
        acls = read_acl_source(str(real_log_dir), super_users=super_users)
        written = check_whatif(spark, logs, tmp_path / f"{len(super_users)}", acls, None)
        assert b'"events": 13518,' in written
