"""The local engine and the Spark jobs give the same results for the same files."""

from __future__ import annotations

import argparse
import gzip
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec

from authorizerd.acl.model import Acl
from authorizerd.cli.main import main as authorizerd
from authorizerd.management.formats.listing import format_acls
from authorizerd.management.plan.document import decode_plan
from authorizerd.replay.acls.reading import read_acl_source
from authorizerd.replay.ingest.report import decode_ingested
from authorizerd.replay.local.traffic import LogEngine, read_traffic
from authorizerd.replay.plans import IngestPlan, WhatIfPlan
from authorizerd.replay.whatif import evaluation
from authorizerd.replay.whatif.options import add_arguments, make_plan
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.ops.replay.ingest.parse.hostile_lines import BEGINNINGS, MESSAGE, PIECES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 2200
ADMIN = ("User:admin",)
LAYOUTS = (
    "Principal = {} is {} operation = {} from host = {} on resource = Topic:LITERAL:{} for request "
    "= Fetch with resourceRefCount = 1 based on rule {} (kafka.authorizer.logger)",
    "Principal = {} is {} Operation = {} from host = {} on resource = Topic:{}",
    "Principal = {} is {} Operation = {} from host = {} on resource = Group:PREFIXED:{}",
)


def write_logs(folder: Path) -> None:
    """Write logs with lines of every kind, some of which repeat at other times."""
    drawn = random.Random(SEED)
    names = ("t", "u", "orders-1", "*a", "ü", *PIECES)

    def line() -> bytes:
        if drawn.random() < 0.2:
            return drawn.choice(BEGINNINGS) + MESSAGE % drawn.choice((b"a", b"\xff", b"\x01"))
        text = drawn.choice(LAYOUTS).format(
            drawn.choice(("User:a", "User:b", "User:*", *drawn.sample(PIECES, 1))),
            drawn.choice(("Allowed", "Denied")),
            drawn.choice(("READ", "Describe", "IdempotentWrite", "ANY")),
            drawn.choice(("10.0.0.1", "10.0.0.2", "unknown")),
            drawn.choice(names),
            drawn.choice(("SuperUser", "DefaultDeny", "A", "B")),
        )
        second = f"[2026-11-21 16:26:{drawn.randrange(60):02d},{drawn.randrange(1000):03d}] "
        return f"{second}{drawn.choice(('INFO ', 'DEBUG '))}{text}".encode().replace(b"\n", b" ")

    lines = [line() for _ in range(4000)]
    lines += [b"", b"  ", b"{}", b'{"log":1}', b"\xff", b"no line of an audit log"]
    drawn.shuffle(lines)
    (folder / "plain.log").write_bytes(b"\xef\xbb\xbf{}\n" + b"\n".join(lines[:2000]))
    # A log is kept, and packed before it grew.
    (folder / "plain.log.gz").write_bytes(gzip.compress(b"{}\n" + b"\n".join(lines[:1500])))
    (folder / "below").mkdir()
    (folder / "below" / "a.log.gz").write_bytes(gzip.compress(b"\n".join(lines[2000:3000])))
    (folder / "below" / "b.log.gz").write_bytes(gzip.compress(b"\n".join(lines[3000:]))[:-12])
    (folder / "_hidden").write_bytes(lines[0])


def ingest(spark: SparkSession, logs: Path, out: Path) -> IngestPlan:
    from authorizerd.replay.ingest.job import run

    plan = IngestPlan(inputs=(str(logs),), out=str(out), bad_ratio_max=1.0)
    run(spark, plan)
    return plan


def tuples_in(events: Path) -> set[tuple[object, ...]]:
    """Return the tuples that an ingest wrote, with times in milliseconds."""
    keys = "principal, host, operation, resource_type, resource_name, pattern_type"
    figures = ", ".join(
        f"{answer}_events, epoch_ms({answer}_first_at), epoch_ms({answer}_last_at), {answer}_rule"
        for answer in ("allowed", "denied")
    )
    found = duckdb.sql(f"SELECT {keys}, {figures} FROM '{events}/tuples/**/*.parquet'")
    assert found is not None
    return set(found.fetchall())


def figures_of(ingested: Any) -> dict[str, Any]:  # noqa: ANN401
    figures = msgspec.structs.asdict(ingested)
    return {**figures, "inputs": None, "damaged": len(ingested.damaged)}  # not paths and URIs


def test_hostile_logs_are_read_and_judged_alike(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.whatif.job import run

    logs, events = tmp_path / "logs", tmp_path / "events"
    logs.mkdir()
    write_logs(logs)
    logs_plan = ingest(spark, logs, events)
    traffic = read_traffic(logs_plan)
    ingested = decode_ingested((events / "ingest.json").read_text())
    assert figures_of(traffic.ingested) == figures_of(ingested)
    assert set(map(tuple, traffic.tuples)) == tuples_in(events)
    assert ingested.lines > 3900
    assert len(ingested.reasons) >= 8
    assert ingested.reasons["broken_archive"] == 1
    deny = Acl(2, "*", 3, "User:*", "10.0.0.2", 2, 2)
    plan = WhatIfPlan(
        events=str(events),
        out=str(tmp_path / "whatif"),
        candidate=acl_set_of([topic_read("t"), topic_read("*", principal="User:b"), deny]),
        baseline=acl_set_of([topic_read("", prefixed=True), topic_read("t", principal="User:b")]),
    )
    run(spark, plan)
    evaluation.run(plan, LogEngine(logs_plan, str(tmp_path / "here")))
    written, here = (tmp_path / name / "whatif.json" for name in ("whatif", "here"))
    assert here.read_bytes() == written.read_bytes()


def test_report_of_a_plan_is_evidence_for_it(
    spark: SparkSession, real_log_dir: Path, tmp_path: Path
) -> None:
    """The way for large logs gives the evidence that the local engine gives for small ones."""
    from authorizerd.replay.whatif.job import run

    log = real_log_dir / "kafka-authorizer.log.xz"
    listing, desired = real_log_dir / "acls-list.txt", tmp_path / "desired.txt"
    present = read_acl_source(str(listing))
    kept = [dated.acl for dated in present.acls if dated.acl.principal != "User:growth-svc-31"]
    desired.write_text(format_acls(kept))
    made, events = tmp_path / "plan.json", tmp_path / "events"
    make = f"acls plan {desired} --acls {listing} --super-users User:admin"
    make += f" --allow-everyone-if-no-acl-found=false --out {made}"
    assert authorizerd(make.split()) == 10
    ingest(spark, log, events)
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = f"--events {events} --acls {listing} --plan {made}"
    parsed = parser.parse_args(words.split(), argparse.Namespace(out=str(tmp_path / "out")))
    parsed.overwrite, parsed.refuse = False, parser.error
    plan = make_plan(parsed, is_local=True)
    assert isinstance(plan, WhatIfPlan)
    assert run(spark, plan) == 3
    found = []
    for evidence in (f"--traffic {log}", f"--traffic-report {tmp_path}/out/whatif.json"):
        assert authorizerd(f"{make} {evidence}".split()) == 3
        (check,) = decode_plan(made.read_bytes()).checks
        assert check.evidence is not None
        found.append(check.evidence)
    here, there = found
    assert here.newly_denied.tuples == 270
    assert (here.newly_denied, here.newly_allowed) == (there.newly_denied, there.newly_allowed)
    assert (here.engine, there.engine) == ("local", "spark")
    same = ("events", "allowed_events", "tuples", "first_at", "last_at", "not_evaluated")
    assert [getattr(here, name) for name in same] == [getattr(there, name) for name in same]
