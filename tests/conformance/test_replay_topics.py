"""Ingests of a topic of a real Kafka: each one adds the records that are new."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from msgspec.structs import replace

from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.commit import read_newest
from authorizerd.replay.local.table import TableEngine
from authorizerd.replay.plans import IngestPlan, WhatIfPlan
from authorizerd.replay.topics import Topic, parse_topic
from authorizerd.replay.whatif import evaluation as whatif
from authorizerd.replay.whatif.report import WhatIf, decode_whatif
from tests.conformance.audit_topic import AuditTopic
from tests.conformance.conftest import ROOT
from tests.end_to_end.spark_cluster import running_cluster, running_connect
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.support.daemon_process import COMMAND
from tests.support.programs import output_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark(connector: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a local session with the connector."""
    from authorizerd.replay.spark.session import session_builder

    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        session = (
            session_builder("conformance")
            .master("local[2]")
            .config("spark.jars", connector)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .config("spark.executorEnv.PYTHONPATH", str(ROOT))
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


class Table:
    """A table to which the topic is ingested."""

    def __init__(self, spark: SparkSession, topic: AuditTopic, folder: Path) -> None:
        self._spark = spark
        self._topic = topic
        self.folder = folder
        self.out = folder / "table"

    def topic(self, servers: str | None = None) -> Topic:
        address = f"kafka://{servers or self._topic.servers}/{self._topic.name}"
        return parse_topic(address, self._topic.settings)

    def ingest(self, *topics: Topic, **options: Any) -> int:  # noqa: ANN401 - fields of the plan
        from authorizerd.replay.ingest.job import run

        topics = topics or (self.topic(),)
        return run(self._spark, IngestPlan(inputs=(), topics=topics, out=str(self.out), **options))

    def check(self, lines: list[bytes]) -> None:
        """Check that the table equals that of a file with ``lines``."""
        from authorizerd.replay.ingest.job import run

        log, expected = self.folder / "audit.log", self.folder / "expected"
        log.write_bytes(b"".join(line + b"\n" for line in lines))
        run(
            self._spark,
            IngestPlan(inputs=(str(log),), out=str(expected), overwrite=True, bad_ratio_max=1.0),
        )
        assert _read(self.out) == _read(expected)
        assert self._whatif(self.out) == self._whatif(expected)

    def _whatif(self, table: Path) -> WhatIf:
        candidate = acl_set_of([topic_read("orders")])
        plan = WhatIfPlan(events="", out=str(self.folder / "out"), candidate=candidate)
        whatif.run(plan, TableEngine(str(table), plan.out))
        text = (self.folder / "out/whatif.json").read_text()
        return replace(decode_whatif(text), logs={})


def _read(table: Path) -> object:
    """Return the events and the figures of a table, without what tells where the lines were."""
    commit = read_newest(table)
    files = [f"{table}/{run.events_glob}" for run in commit.runs if run.days]
    events = duckdb.sql(
        'SELECT * EXCLUDE (file, sequence) REPLACE (epoch_us("at") AS "at"), count(*) '
        f"FROM read_parquet({files}, hive_partitioning = false) GROUP BY ALL ORDER BY ALL"
    )
    assert events is not None
    figures = commit.ingested
    return events.fetchall(), (figures.lines, figures.blank_lines, figures.reasons, figures.tuples)


def test_each_ingest_of_a_topic_adds_the_new_records(
    spark: SparkSession,
    audit_topic: AuditTopic,
    audit_lines: list[bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from authorizerd.replay.ingest import job

    table = Table(spark, audit_topic, tmp_path)
    # A topic without records is a table without events.
    assert table.ingest() == 0
    assert read_newest(table.out).ingested.lines == 0
    # Equal lines in several records are several events, unlike equal files.
    lines = [*audit_lines[:4000], *audit_lines[:50], b"", b"no audit line"]
    audit_topic.feed(lines)
    table.ingest()
    table.check(lines)
    commit = read_newest(table.out)
    assert table.ingest() == 0
    assert "nothing new" in capsys.readouterr().out
    assert read_newest(table.out) == commit
    # The same lines again are new records; also those of a partition that was added.
    audit_topic.add_partition()
    audit_topic.feed(audit_lines[:100], partition=0)
    audit_topic.feed(audit_lines[4000:9000])
    audit_topic.feed(audit_lines[9000:9100], partition=3)
    lines += audit_lines[:100] + audit_lines[4000:9100]
    # A run that dies before its commit leaves the offsets as they were.
    with monkeypatch.context() as patch:
        patch.setattr(job, "create_commit", _die)
        with pytest.raises(KeyboardInterrupt):
            table.ingest()
    assert read_newest(table.out) == commit
    table.ingest(bad_ratio_max=0.0)
    table.check(lines)


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_topic_that_lost_records_is_rejected(
    spark: SparkSession, audit_topic: AuditTopic, audit_lines: list[bytes], tmp_path: Path
) -> None:
    table = Table(spark, audit_topic, tmp_path)
    audit_topic.feed(audit_lines[:10], partition=0)
    table.ingest()
    commit = read_newest(table.out)
    audit_topic.feed(audit_lines[10:30], partition=0)
    audit_topic.delete_records(0, 20)
    with pytest.raises(JobError, match="Kafka deleted records before they were read"):
        table.ingest()
    assert read_newest(table.out) == commit
    table.ingest(overwrite=True)  # what Kafka still has
    table.check(audit_lines[20:30])
    with pytest.raises(
        JobError, match=r"localhost:\d+/audit-lines: the table has records from kafka://127"
    ):
        table.ingest(table.topic(audit_topic.servers.replace("127.0.0.1", "localhost")))
    audit_topic.delete()
    audit_topic.create()
    audit_topic.feed(audit_lines[:5], partition=0)
    with pytest.raises(JobError, match=r"partition 0 ends at offset 5, .* up to offset 30"):
        table.ingest()


def test_topic_that_cannot_be_read_is_named(
    spark: SparkSession, audit_topic: AuditTopic, tmp_path: Path
) -> None:
    table = Table(spark, audit_topic, tmp_path)
    missing = Topic(servers=audit_topic.servers, name="missing", settings=audit_topic.settings)
    with pytest.raises(JobError, match=r"kafka://\S+/missing: "):
        table.ingest(missing)
    assert not table.out.exists()


def test_topic_is_ingested_through_connect(
    connector: str, audit_topic: AuditTopic, audit_lines: list[bytes], tmp_path: Path
) -> None:
    """The server has the connector; the settings of the topic are this machine's."""
    out = tmp_path / "table"
    words = ("replay", "ingest", "--input", audit_topic.uri, "--out", out.as_uri())
    config = ("--command-config", str(audit_topic.client_config))
    with (
        running_cluster(tmp_path) as cluster,
        running_connect(cluster, connector) as url,
    ):
        for first in (0, 1000):
            audit_topic.feed(audit_lines[first : first + 1000])
            output_of(*COMMAND, *words, *config, "--remote", url)
            assert read_newest(out).ingested.events == first + 1000
