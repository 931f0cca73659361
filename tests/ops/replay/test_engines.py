"""``--logs``: the engine that is chosen, and what the local one writes."""

import gzip
import sys
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest

from authorizerd.replay import cli, engines
from authorizerd.replay.errors import SubmissionError
from authorizerd.replay.local import counting
from authorizerd.replay.local import table as tables
from authorizerd.replay.plans import IngestPlan, Plan, UsagePlan, WhatIfPlan
from authorizerd.replay.submit import submitter
from authorizerd.replay.submit.options import SparkOptions
from authorizerd.replay.text import format_count
from authorizerd.replay.usage.report import decode_usage
from authorizerd.replay.whatif.report import WhatIf, decode_whatif
from tests.ops.replay.recorded_events import START, Event, write_events
from tests.support.fixture_types import MonkeyPatch
from tests.support.printed import Printed, run_main
from tests.support.programs import run_program

LINE = (
    "[2026-11-21 16:26:0{}] DEBUG Principal = {} is {} operation = Read from host = 10.0.0.1 on "
    "resource = Topic:LITERAL:orders for request = Fetch with resourceRefCount = 1 based on rule "
    "DefaultDeny (kafka.authorizer.logger)\n"
)
ALLOWED = LINE.format("1,000", "User:a", "Allowed")
DENIED = LINE.format("2,000", "User:b", "Denied")
B_READS = (
    "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, "
    "patternType=LITERAL)`:\n\t(principal=User:b, host=*, operation=READ, permissionType=ALLOW)\n"
)
USED_BY_A = B_READS.replace("User:b", "User:a") + B_READS.replace("name=orders", "name=other")
"""These ACLs decide as recorded, and that of User:b is not used."""
WORDS = "whatif --acls acls.txt --out out"
SPARK_CODE = 0


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: MonkeyPatch) -> list[Plan]:
    """The plans that Spark would run, in a folder with logs and ACLs."""
    plans: list[Plan] = []

    def submit(plan: Plan, options: SparkOptions) -> int:
        plans.append(plan)
        return SPARK_CODE

    monkeypatch.setattr(submitter, "submit", submit)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text(ALLOWED)
    (tmp_path / "logs" / "b.log.gz").write_bytes(gzip.compress(DENIED.encode()))
    (tmp_path / "logs" / "_hidden").write_text(ALLOWED)
    (tmp_path / "acls.txt").write_text(B_READS)
    (tmp_path / "used.txt").write_text(USED_BY_A)
    return plans


def replay(words: str, *, code: int = 0) -> Printed:
    return run_main(*words.split(), code=code, main=cli.main)


def read_report() -> WhatIf:
    return decode_whatif(Path("out/whatif.json").read_text())


@pytest.mark.parametrize(("logs", "events", "code"), [
    ("logs", 2, 3),
    ("logs/*", 2, 3),
    ("logs/?.log", 1, 3),
    ("logs/a.log logs/../logs/a.log", 1, 3),
    ("logs/a.log --logs logs/b.log.gz --engine local", 2, 3),
    ("logs/b.log.gz --format kafka --tz +02:00", 1, 5),
    ("logs/b.log.gz --min-allowed 0", 1, 0),
])  # fmt: skip
def test_small_logs_are_read_here(submitted: list[Plan], logs: str, events: int, code: int) -> None:
    printed = replay(f"{WORDS} --logs {logs}", code=code)
    report = read_report()
    assert (report.events, report.baseline) == (events, None)
    assert report.newly_denied.events == (code == 3)
    said = printed
    assert "authorizerd replay: engine: local, without Spark (" in said.err
    tuples, lines = format_count(events, "tuple"), format_count(events, "line")
    assert f"{tuples} of {lines}; 0 set aside" in said.out
    assert [path.name for path in Path("out").iterdir()] == ["whatif.json"]
    assert not submitted


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """An ingest of denials to User:b, who may read by ``acls.txt``, and to User:c."""
    return write_events(
        tmp_path / "table",
        [
            Event(f"User:{name}", "10.0.0.1", "READ", "TOPIC", "orders", False, rule="DefaultDeny")
            for name in "bc"
        ],
    )


@pytest.mark.parametrize(("words", "reason"), [
    ("--logs logs --engine spark", "--engine spark"),
    ("--logs logs --conf a=b", "options of Spark were given"),
    ("--logs logs --print", "options of Spark were given"),
    ("--logs logs/[ab].log", "expected a glob with only * and ?"),
    ("--logs s3a://bucket/logs", "expected a path on this machine, found a URI"),
    ("--logs ingested", "expected an audit log, found Parquet"),
    ("--events table --engine spark", "--engine spark"),
    ("--events table --print", "options of Spark were given"),
    ("--events s3a://bucket/table", "expected a path on this machine, found a URI"),
    ("--events table --out s3a://bucket/out", "expected a path on this machine, found a URI"),
])  # fmt: skip
def test_spark_runs_what_is_not_for_one_process(
    submitted: list[Plan], table: Path, tmp_path: Path, words: str, reason: str
) -> None:
    (tmp_path / "ingested").mkdir()
    (tmp_path / "ingested" / "part.parquet").touch()
    printed = replay(f"{WORDS} {words}", code=SPARK_CODE)
    *ingests, plan = submitted
    assert isinstance(plan, WhatIfPlan)
    assert len(ingests) == ("--logs" in words)
    for ingest in ingests:
        assert isinstance(ingest, IngestPlan)
        assert ingest.out == plan.events == f"{tmp_path}/out/events"
        assert (plan.out, plan.overwrite, ingest.overwrite) == (f"{tmp_path}/out", True, False)
    (line,) = printed.err.splitlines()
    assert line.startswith("authorizerd replay: engine: spark (")
    assert reason in line


@pytest.mark.parametrize(("words", "module", "limit", "said"), [
    ("--events table", tables, "TUPLES_MAX", "the events have 2 distinct requests, more than"),
    ("--logs logs", counting, "TUPLES_MAX", "more than 1 distinct requests, too many for the"),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["auto", "local"])
def test_too_many_distinct_requests_are_for_spark(
    submitted: list[Plan], monkeypatch: MonkeyPatch, table: Path, engine: str, words: str,
    module: ModuleType, limit: str, said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(module, limit, 1)
    is_local = engine == "local"
    errors = replay(f"{WORDS} {words} --engine {engine}", code=1 if is_local else SPARK_CODE).err
    assert bool(submitted) is not is_local
    assert said in errors
    assert ("use --engine spark" in errors) is is_local
    assert not Path("out/whatif.json").exists()


@pytest.mark.parametrize("engine", ["auto", "local"])
def test_table_is_evaluated_here(submitted: list[Plan], table: Path, engine: str) -> None:
    Path("out/changes").mkdir(parents=True)
    Path("out/changes/part-1.parquet").write_text("of an earlier run")
    printed = replay(f"{WORDS} --overwrite --events table --engine {engine}", code=5)
    assert read_report().newly_allowed.events == 1
    assert "authorizerd replay: engine: local, without Spark\n" in printed.err
    (row,) = pq.read_table("out/changes").to_pylist()
    assert (row["change"], row["events"]) == ("newly_allowed", 1)
    assert row["first_at"] == row["last_at"] == START
    assert [path.name for path in Path("out/changes").iterdir()] == ["part-0.parquet"]
    assert not submitted


def test_table_without_pyarrow_is_for_spark(
    submitted: list[Plan], monkeypatch: MonkeyPatch, table: Path
) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    printed = replay(f"{WORDS} --events table", code=SPARK_CODE)
    assert len(submitted) == 1
    assert "pyarrow, which reads events without Spark, is not installed" in printed.err


def test_directory_without_an_ingest_is_named(submitted: list[Plan]) -> None:
    assert "logs: expected the output of ingest" in replay(f"{WORDS} --events logs", code=1).err
    assert not submitted


def test_large_logs_are_for_spark(submitted: list[Plan], monkeypatch: MonkeyPatch) -> None:
    """An archive counts with its estimated size."""
    plain, packed = (Path(f"logs/{name}").stat().st_size for name in ("a.log", "b.log.gz"))
    words = f"{WORDS} --logs logs --overwrite"
    monkeypatch.setattr(engines, "LOCAL_BYTES_MAX", plain + 20 * packed)
    replay(words, code=3)
    assert not submitted
    monkeypatch.setattr(engines, "LOCAL_BYTES_MAX", plain + 20 * packed - 1)
    assert "engine: spark (the logs have about 0 MiB unpacked" in replay(words, code=SPARK_CODE).err
    assert [type(plan) for plan in submitted] == [WhatIfPlan]
    assert len(list(Path("out/events/commits").iterdir())) == 1


def test_failed_ingest_ends_the_command(submitted: list[Plan], monkeypatch: MonkeyPatch) -> None:
    plans: list[Plan] = []

    def submit(plan: Plan, options: SparkOptions) -> int:
        plans.append(plan)
        return 1

    monkeypatch.setattr(submitter, "submit", submit)
    replay(f"{WORDS} --logs logs --engine spark", code=1)
    assert len(plans) == 1


def test_missing_spark_names_the_extra(submitted: list[Plan], monkeypatch: MonkeyPatch) -> None:
    def submit(plan: Plan, options: SparkOptions) -> int:
        raise SubmissionError("Spark not found: install authorizerd[replay]")

    monkeypatch.setattr(submitter, "submit", submit)
    printed = replay(f"{WORDS} --logs logs --engine spark", code=1)
    assert "Spark not found: install authorizerd[replay]" in printed.err


@pytest.mark.parametrize(("logs", "said"), [
    ("nowhere", "nowhere: no such file or directory"),
    ("logs/*.txt", "logs/*.txt: no files found"),
    ("logs/_hidden", "logs/_hidden: no files found"),
    ("acls.txt", "not accepted: 2 set aside (no_decision 2) of 2 lines, more than"),
])  # fmt: skip
def test_unusable_logs_leave_no_result(submitted: list[Plan], logs: str, said: str) -> None:
    Path("out/changes").mkdir(parents=True)
    Path("out/whatif.json").write_text("earlier")
    assert said in replay(f"{WORDS} --overwrite --logs {logs}", code=1).err
    assert Path("out/whatif.json").exists() is (logs != "acls.txt")
    assert not submitted


def test_earlier_changes_of_spark_are_removed(submitted: list[Plan], tmp_path: Path) -> None:
    """They would contradict the new summary; other files stay."""
    Path("out/changes").mkdir(parents=True)
    Path("out/changes/part.parquet").touch()
    Path("out/mine").touch()
    replay(f"{WORDS} --logs logs", code=1)
    replay(f"{WORDS} --overwrite --logs logs", code=3)
    assert sorted(path.name for path in Path("out").iterdir()) == ["mine", "whatif.json"]


def test_damaged_archive_is_named_and_counted(submitted: list[Plan]) -> None:
    packed = Path("logs/b.log.gz")
    packed.write_bytes(packed.read_bytes()[:-9])
    said = replay(f"{WORDS} --logs logs --max-bad-ratio 0.5", code=3)
    assert f"{packed.absolute()}: the archive is damaged" in said.err
    assert "1 set aside (broken_archive 1)" in said.out
    gap = f"{packed.absolute()}: the archive is damaged, so events are missing: fetch or pack it"
    assert f"this proves nothing: {gap}" in said.out
    replay("ingest --input logs --out table --max-bad-ratio 0.5")
    words = "--acls used.txt --out out --overwrite --assume-in-force"
    for record in ("--logs logs --max-bad-ratio 0.5", "--events table"):
        said = replay(f"usage {words} {record}", code=1)
        assert f"no ACL can be called unused: {gap}" in said.err


def test_sample_is_named_for_logs_and_for_a_table(submitted: list[Plan]) -> None:
    Path("logs/a.log").write_text(ALLOWED + ALLOWED.replace("\n", " [sampleRate=0.1]\n"))
    replay("ingest --input logs --out table")
    gap = "the record is a sample of the allowed requests (authorizerd.audit.sample.allowed)"
    for record in ("--logs logs", "--events table"):
        words = f"--acls used.txt --out out --overwrite {record}"
        assert f"this proves nothing: {gap}" in replay(f"whatif {words}", code=5).out
        said = replay(f"usage {words} --assume-in-force", code=1)
        assert f"no ACL can be called unused: {gap}" in said.err


def test_usage_is_evaluated_here(submitted: list[Plan]) -> None:
    words = "usage --acls used.txt --out out --assume-in-force --logs logs"
    printed = replay(words)
    report = decode_usage(Path("out/usage.json").read_text())
    assert [each.acl.principal for each in report.unused] == ["User:b"]
    assert "engine: local, without Spark (2 files)" in printed.err
    assert sorted(path.name for path in Path("out").iterdir()) == ["commands.sh", "usage.json"]
    assert not submitted
    replay(f"{words} --overwrite --engine spark", code=SPARK_CODE)
    assert [type(plan) for plan in submitted] == [IngestPlan, UsagePlan]


def test_usage_without_evidence_leaves_no_earlier_result(submitted: list[Plan]) -> None:
    Path("out").mkdir()
    for name in ("usage.json", "commands.sh"):
        Path("out", name).write_text("of an earlier run")
    words = "usage --acls acls.txt --out out --overwrite --assume-in-force --logs logs/b.log.gz"
    assert "authorizerd replay: all 1 recorded events are denials" in replay(words, code=1).err
    assert list(Path("out").iterdir()) == []
    assert not submitted


@pytest.mark.slow
def test_base_install_evaluates_logs(submitted: list[Plan], tmp_path: Path) -> None:
    """Without pyarrow, pyspark and jinja2, and without Java on the path."""
    blocked = "import sys; sys.modules.update(dict.fromkeys(('pyarrow','pyspark','py4j','jinja2')))"
    code = f"{blocked}; from authorizerd.replay.__main__ import run_and_exit; run_and_exit()"
    usage = ["usage", "--acls", "used.txt", "--out", "u", "--assume-in-force", "--logs", "logs"]
    for words, expected in (([*WORDS.split(), "--logs", "logs"], 3), (usage, 0)):
        done = run_program(sys.executable, "-c", code, *words, env={"PATH": str(tmp_path)})
        assert done.returncode == expected, done.stderr
    assert read_report().events == decode_usage(Path("u/usage.json").read_text()).window.tuples == 2
