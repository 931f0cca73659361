import os
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from authorizerd.acl.model import Operation
from authorizerd.cli.main import main as authorizerd
from authorizerd.replay import cli
from authorizerd.replay.acl_set import digest_of
from authorizerd.replay.plans import FollowPlan, IngestPlan, LineLayout, Plan, UsagePlan, WhatIfPlan
from authorizerd.replay.submit import submitter
from authorizerd.replay.submit.options import SparkOptions
from authorizerd.replay.topics import Topic
from tests.support.printed import run_main

ACLS = """\
Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)`: 
 \t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)
"""  # noqa: W291 - as kafka-acls prints it

P = TypeVar("P", bound=Plan)
EXIT_CODE = 3
"""Returned by the double of ``submit``."""


class Submitted:
    """Stands in for ``submit`` and keeps what it is given."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.options: list[SparkOptions] = []

    def __call__(self, plan: Plan, options: SparkOptions) -> int:
        self.plans.append(plan)
        self.options.append(options)
        return EXIT_CODE

    def run(self, words: str, kind: type[P]) -> P:
        """Run the command on Spark and return the plan that it submits."""
        engine = [] if kind is FollowPlan else ["--engine", "spark"]
        assert cli.main([*words.split(), *engine]) == EXIT_CODE
        plan = self.plans[-1]
        assert isinstance(plan, kind)
        return plan


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submitted:
    """A double of ``submit``, in a folder with events and ACLs."""
    made = Submitted()
    monkeypatch.setattr(submitter, "submit", made)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events").mkdir()
    for name, text in (("acls.txt", ACLS), ("none.txt", ""), ("none.yaml", "acls: []\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "client.properties").write_text("ssl.key.password=hidden")
    (tmp_path / "loop").symlink_to("loop")
    return made


def test_ingest_makes_local_paths_absolute(submitted: Submitted, tmp_path: Path) -> None:
    plan = submitted.run(
        "ingest --input events --input logs/*.log hdfs://name/audit --out out --tz +02:00"
        " --max-bad-ratio 0.5 --format kafka --line-field event.original",
        IngestPlan,
    )
    assert plan == IngestPlan(
        inputs=(f"{tmp_path}/events", f"{tmp_path}/logs/*.log", "hdfs://name/audit"),
        out=f"{tmp_path}/out",
        layout=LineLayout(format="kafka", time_zone="+02:00", field="event.original"),
        bad_ratio_max=0.5,
    )
    assert submitted.options == [SparkOptions()]
    plan = submitted.run(
        "ingest --input kafka://a:1,b:2/audit events --command-config client.properties --out out",
        IngestPlan,
    )
    assert plan.inputs == (f"{tmp_path}/events",)
    settings = {"ssl.key.password": "hidden"}
    assert plan.topics == (Topic(servers="a:1,b:2", name="audit", settings=settings),)
    assert plan.sources == (f"{tmp_path}/events", "kafka://a:1,b:2/audit")
    assert "hidden" not in repr(plan)
    days = {(datetime.now(UTC) - timedelta(days=30)).date().isoformat()}
    expiring = submitted.run(f"{INGEST} --expire 30 --engine spark", IngestPlan)
    days.add((datetime.now(UTC) - timedelta(days=30)).date().isoformat())
    assert expiring.first_day in days


@pytest.mark.parametrize("where", ["--master spark://host:7077", "--remote sc://host", "--remote"])
def test_paths_are_unchanged_for_a_cluster(
    where: str, submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine cannot tell whether they exist there."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    plan = submitted.run(f"ingest --input not/here --out events {where}", IngestPlan)
    assert submitted.options[-1].remote == ("sc://host" if "remote" in where else None)
    assert (plan.inputs, plan.out) == (("not/here",), "events")


@pytest.mark.parametrize(("more", "users", "is_open"), [
    ("--super-users User:admin;User:root; --allow-everyone-if-no-acl-found",
     ("User:admin", "User:root"), True),
    ("", None, None),
    ("--super-users= --allow-everyone-if-no-acl-found false", (), False),
])  # fmt: skip
def test_whatif_reads_both_sets_of_acls_here(
    submitted: Submitted, tmp_path: Path, more: str, users: object, is_open: object
) -> None:
    plan = submitted.run(f"{WHATIF} --baseline-acls none.txt {more}", WhatIfPlan)
    assert (plan.events, plan.overwrite) == (f"{tmp_path}/events", False)
    assert [item.acl.operation for item in plan.candidate.acls] == [Operation.READ]
    assert plan.baseline is not None
    assert plan.baseline.acls == ()
    for read in (plan.candidate, plan.baseline):
        assert (read.super_users, read.allow_everyone_if_no_acl_found) == (users, is_open)
    plan = submitted.run(f"{WHATIF} --overwrite", WhatIfPlan)
    assert (plan.baseline, plan.overwrite) == (None, True)
    assert (plan.lookback_days, plan.since_ms) == (None, None)
    plan = submitted.run(f"{WHATIF} --lookback 36h --min-allowed 7", WhatIfPlan)
    assert (plan.lookback_days, plan.since_ms, plan.allowed_min) == (1.5, None, 7)


def test_watch_of_a_topic_takes_its_options(submitted: Submitted, tmp_path: Path) -> None:
    words = f"{WATCH} --follow kafka://a:1,b:2/audit"
    first = submitted.run(words, FollowPlan)
    assert (first.interval_s, first.duration_s, first.from_beginning) == (30, None, False)
    assert first.whatif.candidate.acls
    (tmp_path / "out/follow").mkdir(parents=True)  # the watch continues
    second = submitted.run(
        f"{words} --interval 2m --duration 1d --from-beginning --tz +02:00 --line-field message"
        " --max-bad-ratio 0.5 --command-config client.properties",
        FollowPlan,
    )
    assert (second.interval_s, second.duration_s, second.from_beginning) == (120, 86_400, True)
    assert second.ingest.layout == LineLayout(time_zone="+02:00", field="message")
    assert (second.ingest.bad_ratio_max, second.is_anew) == (0.5, False)
    assert second.topic.settings == {"ssl.key.password": "hidden"}
    assert "hidden" not in repr(second)
    assert second.out == f"{tmp_path}/out"


def test_usage_takes_its_window_and_names_from_options(submitted: Submitted) -> None:
    for window, days, since_ms in (
        ("--lookback 1.5", 1.5, None),
        ("--lookback 12h", 0.5, None),
        ("--since 2026-11-21T16:31:06.718", None, 1_795_278_666_718),
        ("--since 2026-11-21T17:31:06.718+01:00", None, 1_795_278_666_718),
    ):
        plan = submitted.run(f"{USAGE} --names-max 7 {window}", UsagePlan)
        assert (plan.lookback_days, plan.since_ms, plan.names_max) == (days, since_ms, 7)


def test_every_spark_option_is_passed_on(submitted: Submitted) -> None:
    submitted.run(
        "ingest --input x --out y --master yarn --deploy-mode cluster --conf a=b --conf c=d=e"
        " --archives env.tar.gz#env --spark-home /spark --python ./env/bin/python"
        " --print --verbose",
        IngestPlan,
    )
    assert submitted.options == [
        SparkOptions(
            master="yarn", deploy_mode="cluster", conf=("a=b", "c=d=e"),
            archives="env.tar.gz#env", spark_home=Path("/spark"), python="./env/bin/python",
            only_print=True, verbose=True,
        )
    ]  # fmt: skip


INGEST = "ingest --input events --out o"
USAGE = "usage --events events --acls acls.txt --out o"
WATCH = "whatif --acls acls.txt --out out"
WHATIF = f"{WATCH} --events events"


def empty(words: str) -> tuple[str, str]:
    """Return a command with an empty path, which would name the working directory."""
    option = words.split(" {}")[0].split()[-1]
    return words.format("''"), f"argument {option}: expected a path, found an empty text"


@pytest.mark.parametrize(("words", "said"), [
    ("", "the following arguments are required: COMMAND"),
    ("rewind", "unknown command 'rewind': expected one of ingest, whatif, usage, load"),
    ("ingest --out out", "the following arguments are required: --input"),
    ("ingest --input events", "the following arguments are required: --out"),
    ("ingest --input kafka://a/t --out o", "--input: expected kafka://HOST:PORT[,HOST:PORT…]/TO"),
    (f"{INGEST} --command-config c", "--command-config: expected a kafka:// address in --input"),
    (f"{INGEST} --tz Nowhere", "unknown time zone 'Nowhere'"),
    (f"{INGEST} --expire 0", "expected a number of days above 0, found '0'"),
    (f"{INGEST} --expire 1.5", "expected a number of days above 0, found '1.5'"),
    (f"{INGEST} --format xml", "argument --format: invalid choice: 'xml'"),
    (f"{INGEST} --max-bad-ratio 1.1", "expected a number from 0 to 1, found '1.1'"),
    (f"{INGEST} --max-bad-ratio nan", "expected a number from 0 to 1, found 'nan'"),
    (f"{INGEST} --max-b 0.1", "unrecognized arguments: --max-b 0.1"),
    (f"{INGEST} --conf a=secret word", "unrecognized arguments: quote each argument"),
    (f"{INGEST} --conf a", "expected KEY=VALUE, found another text (not shown"),
    (f"{INGEST} --driver-memory 1g", "--driver-memory: use --conf spark.driver.memory=SIZE"),
    (f"{INGEST} --remote host:1;token=secret", "expected sc://HOST:PORT here or in SPARK_REMOTE"),
    (f"{INGEST} --remote", "expected sc://HOST:PORT here or in SPARK_REMOTE"),
    (f"{INGEST} --remote sc://h --conf a=b", "--remote: cannot be combined with other Spark"),
    (f"{INGEST} --deploy-mode cluster", "--master local[*] cannot run a Python driver in"),
    ("whatif --events events --out o", "the following arguments are required: --acls"),
    (f"{USAGE} --lookback 0", "or 12h, or a number of days above 0, found '0'"),
    (f"{USAGE} --lookback inf", "or a number of days above 0, found 'inf'"),
    (f"{USAGE} --names-max 1.5", "expected a whole number from 0 to 100000, found '1.5'"),
    (f"{WHATIF} --super-users root", "--super-users: invalid entry 'root': expected Type:name"),
    (f"{WHATIF} --allow-everyone-if-no-acl-found maybe",
     "--allow-everyone-if-no-acl-found: expected true or false, found 'maybe'"),
    (f"{WATCH} --follow kafka://a/audit", "--follow: expected kafka://HOST:PORT[,HOST:PORT…]/TOPIC"),
    (f"{WATCH} --follow kafka://a:1/t --interval 30", "expected a time such as 30s, 24h or 7d"),
    (f"{WATCH} --follow kafka://a:1/t --interval 0s", "expected a time such as 30s, 24h or 7d"),
    (f"{WATCH} --follow kafka://a:1/t --engine local", "only Spark follows a topic"),
    (f"{WATCH} --follow kafka://a:1/t --lookback 1d", "--lookback: expected --logs or --events"),
    (f"{WHATIF} --since yesterday", "--since: expected a time such as 2026-11-21T16:31, found"),
    (f"{WHATIF} --since 2026-11-21 --lookback 1d", "--lookback: not allowed with argument --since"),
    (f"{WATCH} --follow kafka://a:1/t --remote sc://host", "--remote: cannot follow a topic"),
    (f"{WATCH} --logs a.log --remote sc://host", "--logs: --remote cannot read logs without an"),
    (f"{WATCH} --follow kafka://a:1/t --events events", "not allowed with argument"),
    (f"{WATCH} --logs kafka://a:1/t --engine spark", "--logs: expected files: ingest the topic"),
    (f"{WATCH} --logs kafka://a:1/t", "--logs: expected files: ingest the topic"),
    (f"{WATCH} --events events --duration 24h", "--duration: expected --follow as well"),
    (WATCH, "one of the arguments --events --logs --follow is required"),
    (f"{WHATIF} --logs none.txt", "not allowed with argument"),
    (f"{WHATIF} --engine local --print", "--engine: local uses no Spark"),
    (f"{WHATIF} --tz +02:00", "--tz: expected --logs"),
    (f"{WHATIF} --format json", "--format: expected --logs"),
    (f"{WHATIF} --max-bad-ratio 0", "--max-bad-ratio: expected --logs"),
    (f"{WATCH} --logs none.txt --engine duckdb", "argument --engine: invalid choice"),
    (f"{WATCH} --logs none.txt --master yarn", "--logs: --master yarn cannot read logs"),
    (f"{WATCH} --logs none.txt --out s3a://bucket/out", "--out: expected a directory on this"),
    (f"{WHATIF} --from-beginning --engine spark", "--from-beginning: expected --follow"),
    (f"{WHATIF} --baseline-as-of 5", "--baseline-as-of: expected --baseline-acls as well"),
    (f"{WHATIF} --kafka-release 5", "invalid choice: '5' (choose from '4.3', '4.4')"),
    (f"{WHATIF} --command-config c", "--command-config: expected a kafka:// source of ACLs"),
    (f"{USAGE} --command-config c", "--command-config: expected a kafka:// source of ACLs"),
    (f"{WATCH} --events a\udcff", r"--events: expected a path in UTF-8, found 'a\udcff'"),
    *map(empty, (
        "ingest --input {} --out o",
        "ingest --input events --out {}",
        "ingest --input events --out o --archives {}",
        "ingest --input events --out o --python {}",
        "ingest --input events --out o --spark-home {}",
        "load --events {} --target h:1 --out o",
        "load --events events --target h:1 --out o --cafile {}",
        "load --events events --target h:1 --out o --token-file {}",
        "package --out {}",
        "report --run {}",
        "usage --logs {} --acls acls.txt --out o",
        "usage --events {} --acls acls.txt --out o",
        "whatif --events events --acls {} --out o",
        "whatif --events events --acls acls.txt --plan {} --out o",
        "whatif --events events --acls acls.txt --baseline-acls {} --out o",
        "whatif --events events --acls acls.txt --command-config {} --out o",
    )),
    *((f"{WHATIF} --plan plan.json {one}", f"{re.split('[ =]', one)[0]}: expected either --plan or")
      for one in ("--baseline-acls none.txt", "--super-users User:a", "--super-users=",
                   "--allow-everyone-if-no-acl-found", "--allow-everyone-if-no-acl-found=false")),
])  # fmt: skip
def test_wrong_words_are_named_before_the_help(submitted: Submitted, words: str, said: str) -> None:
    fault, help_line = run_main(*shlex.split(words), code=2, main=cli.main).err.splitlines()
    assert fault.startswith("authorizerd replay")
    assert said in fault
    assert help_line.endswith("--help' for the options.")
    assert not submitted.plans


@pytest.mark.parametrize(("words", "said"), [
    ("ingest --input nowhere --out o", "nowhere: no such file or directory"),
    ("usage --logs loop --acls acls.txt --out o", "loop: too many levels of symbolic links"),
    ("whatif --events nowhere --acls acls.txt --out o", "nowhere: no such file or directory"),
    ("usage --events nowhere --acls acls.txt --out o", "nowhere: no such file or directory"),
    ("ingest --input events --out acls.txt", "--out: acls.txt: not a directory"),
    ("load --events events --target h:1 --out .", "--out: .: not empty; --overwrite replaces"),
    ("whatif --events events --acls events --out o", "events: "),
    ("ingest --input forged --out o", r"/forged/x\nauthorizerd replay: y: expected a regular file"),
])  # fmt: skip
def test_unusable_paths_are_named_in_one_line(
    submitted: Submitted, tmp_path: Path, words: str, said: str
) -> None:
    (tmp_path / "forged").mkdir()
    os.mkfifo(tmp_path / "forged" / "x\nauthorizerd replay: y")
    (line,) = run_main(*words.split(), code=1, main=cli.main).err.splitlines()
    assert line.replace(str(tmp_path), "").startswith(f"authorizerd replay: {said}")
    assert not submitted.plans


@pytest.mark.parametrize("engine", ["auto", "local", "spark"])
@pytest.mark.parametrize(("out", "said"), [
    ("acls.txt/out", "/acls.txt: not a directory"),
    ("loop", "loop: not a directory"),
    ("closed", "closed: no permission to write: choose another directory"),
    ("closed/below/out", "/closed: no permission to write: choose another directory"),
])  # fmt: skip
def test_output_that_cannot_be_written_is_named_before_the_logs_are_read(
    submitted: Submitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    engine: str, out: str, said: str
) -> None:  # fmt: skip
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    # root, who may run the tests, can write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed or not mode & os.W_OK)
    words = f"usage --logs none.txt --acls acls.txt --out {out} --engine {engine} --overwrite"
    (line,) = run_main(*words.split(), code=1, main=cli.main).err.splitlines()
    assert line.startswith("authorizerd replay: --out: ")
    assert said in line
    assert not submitted.plans


def test_only_overwrite_allows_a_directory_that_is_not_empty(
    submitted: Submitted, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert not submitted.run("ingest --input events --out empty", IngestPlan).overwrite
    assert submitted.run("ingest --input events --out . --overwrite", IngestPlan).overwrite


def make_plan_of_nothing(more: str = "") -> None:
    """Write a plan that deletes the ACL of ``acls.txt``, by settings of its own."""
    words = f"acls plan none.yaml --acls acls.txt --out plan.json {more}"
    assert authorizerd(words.split()) == 10


@pytest.mark.parametrize(("more", "users", "is_open"), [
    ("--super-users User:root --allow-everyone-if-no-acl-found", ("User:root",), True),
    ("", None, None),
])  # fmt: skip
def test_whatif_compares_the_acls_before_and_after_a_plan(
    submitted: Submitted, more: str, users: object, is_open: object
) -> None:
    make_plan_of_nothing(more)
    plan = submitted.run(f"{WHATIF} --plan plan.json", WhatIfPlan)
    assert plan.baseline is not None
    assert [dated.acl.principal for dated in plan.baseline.acls] == ["User:alice"]
    assert (plan.candidate.acls, plan.candidate.digest) == ((), digest_of(()))
    for each in (plan.baseline, plan.candidate):
        assert (each.super_users, each.allow_everyone_if_no_acl_found) == (users, is_open)


@pytest.mark.parametrize(("words", "message"), [
    ("--acls none.txt", "none.txt: expected the 1 ACLs that plan.json was made for, found 0"),
    ("--acls acls.txt --plan acls.txt", "acls.txt: "),
    ("--acls acls.txt --plan missing", "missing: No such file or directory"),
])  # fmt: skip
def test_whatif_rejects_plan_of_other_acls(words: str, message: str, submitted: Submitted) -> None:
    make_plan_of_nothing()
    command = f"whatif --events events --out out --plan plan.json {words}"
    printed = run_main(*command.split(), code=1, main=cli.main)
    assert f"authorizerd replay: {message}" in printed.err
    assert not submitted.plans
