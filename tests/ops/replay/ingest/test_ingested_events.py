from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from authorizerd.replay.acl_set import AclSet, digest_of
from authorizerd.replay.plans import LoadPlan, UsagePlan, WhatIfPlan
from authorizerd.replay.spark.errors import JobError
from tests.ops.replay.recorded_events import Event, write_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Plan = LoadPlan | UsagePlan | WhatIfPlan

EVENT = Event("User:a", None, "READ", "TOPIC", "t", True)
NO_ACLS = AclSet(source="none", acls=(), digest=digest_of(()))
PLANS: dict[str, Callable[[str, str], Plan]] = {
    "load": lambda events, out: LoadPlan(
        events=events, out=out, target="127.0.0.1:1", run_id="run", dry_run=True
    ),
    "usage": lambda events, out: UsagePlan(events=events, out=out, acls=NO_ACLS),
    "whatif": lambda events, out: WhatIfPlan(events=events, out=out, candidate=NO_ACLS),
}


@pytest.mark.parametrize(("text", "reason"), [
    (None, "--events: .* expected the output of ingest: .*ingest.json does not exist"),
    ("{}", "--events: .*ingest.json: .*missing required field"),
    ("no", "--events: .*ingest.json: "),
])  # fmt: skip
def test_directory_that_no_ingest_wrote_is_rejected(
    spark: SparkSession, tmp_path: Path, text: str | None, reason: str
) -> None:
    from authorizerd.replay.ingest.ingested_events import read_accepted

    if text is not None:
        (tmp_path / "ingest.json").write_text(text)
    with pytest.raises(JobError, match=reason):
        read_accepted(spark, str(tmp_path))


def test_accepted_ingest_returns_its_figures(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.ingest.ingested_events import read_accepted

    ingested = read_accepted(spark, str(write_events(tmp_path, [EVENT])))
    assert (ingested.accepted, ingested.events, ingested.allowed_events) == (True, 1, 1)


@pytest.mark.parametrize("command", PLANS)
def test_events_that_were_not_accepted_are_rejected(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    run = import_module(f"authorizerd.replay.{command}.job").run
    events = write_events(tmp_path / "in", [EVENT], accepted=False)
    said = ""
    try:
        assert run(spark, PLANS[command](str(events), str(tmp_path / "out"))) == 1
    except JobError as error:  # which becomes exit code 1, and one line
        said = str(error)
    assert "this ingest was not accepted" in said + capsys.readouterr().err
    assert not (tmp_path / "out").exists()
