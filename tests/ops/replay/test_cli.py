from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.acl.model import Operation
from authorizerd.cli.main import main as authorizerd
from authorizerd.replay import cli
from authorizerd.replay.acl_set import digest_of
from authorizerd.replay.plans import IngestPlan, Plan, UsagePlan, WhatIfPlan
from authorizerd.replay.submit import submitter
from authorizerd.replay.submit.options import SparkOptions

ACLS = """\
Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)`: 
 \t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)
"""  # noqa: W291 - as kafka-acls prints it

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

    def run(self, words: str) -> Plan:
        """Run the command on Spark and return the plan that it submits."""
        engine = ["--engine", "spark"] if words.startswith(("whatif", "usage")) else []
        assert cli.main([*words.split(), *engine]) == EXIT_CODE
        return self.plans[-1]


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submitted:
    """A double of ``submit``, in a folder with events and ACLs."""
    made = Submitted()
    monkeypatch.setattr(submitter, "submit", made)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events").mkdir()
    (tmp_path / "acls.txt").write_text(ACLS)
    (tmp_path / "none.txt").write_text("")
    (tmp_path / "none.yaml").write_text("acls: []\n")
    return made


def test_ingest_makes_local_paths_absolute(submitted: Submitted, tmp_path: Path) -> None:
    plan = submitted.run(
        "ingest --input events --input logs/*.log hdfs://name/audit --out out --tz +02:00"
        " --max-bad-ratio 0.5 --format kafka"
    )
    assert plan == IngestPlan(
        inputs=(f"{tmp_path}/events", f"{tmp_path}/logs/*.log", "hdfs://name/audit"),
        out=f"{tmp_path}/out",
        format="kafka",
        time_zone="+02:00",
        bad_ratio_max=0.5,
    )
    assert submitted.options == [SparkOptions()]


def test_paths_are_unchanged_for_a_cluster(submitted: Submitted) -> None:
    """This machine cannot tell whether they exist there."""
    plan = submitted.run("ingest --input not/here --out events --master spark://host:7077")
    assert isinstance(plan, IngestPlan)
    assert (plan.inputs, plan.out) == (("not/here",), "events")


def test_whatif_reads_both_sets_of_acls_here(submitted: Submitted, tmp_path: Path) -> None:
    words = "whatif --events events --acls acls.txt --out out"
    plan = submitted.run(
        f"{words} --baseline-acls none.txt --super-users User:admin;User:root;"
        " --allow-everyone-if-no-acl-found"
    )
    assert isinstance(plan, WhatIfPlan)
    assert plan.events == f"{tmp_path}/events"
    assert [item.acl.operation for item in plan.candidate.acls] == [Operation.READ]
    assert plan.baseline is not None
    assert plan.baseline.acls == ()
    for read in (plan.candidate, plan.baseline):
        assert read.super_users == ("User:admin", "User:root")
        assert read.allow_everyone_if_no_acl_found
    plan = submitted.run(f"{words} --overwrite")
    assert isinstance(plan, WhatIfPlan)
    assert plan.baseline is None
    assert plan.overwrite


def test_usage_takes_its_window_and_names_from_options(submitted: Submitted) -> None:
    plan = submitted.run(
        "usage --events events --acls acls.txt --lookback 1.5 --names-max 7 --out out"
    )
    assert isinstance(plan, UsagePlan)
    assert (plan.lookback_days, plan.names_max) == (1.5, 7)


def test_every_spark_option_is_passed_on(submitted: Submitted) -> None:
    submitted.run(
        "ingest --input x --out y --master yarn --deploy-mode cluster --conf a=b --conf c=d=e"
        " --archives env.tar.gz#env --spark-home /spark --python ./env/bin/python"
        " --driver-memory 1g --executor-memory 2G --executor-cores 2 --num-executors 4"
        " --print --verbose"
    )
    assert submitted.options == [
        SparkOptions(
            master="yarn",
            deploy_mode="cluster",
            conf=("a=b", "c=d=e"),
            archives="env.tar.gz#env",
            spark_home=Path("/spark"),
            python="./env/bin/python",
            driver_memory="1g",
            executor_memory="2G",
            executor_cores=2,
            num_executors=4,
            only_print=True,
            verbose=True,
        )
    ]


INGEST = "ingest --input events --out o"
USAGE = "usage --events events --acls acls.txt --out o"


@pytest.mark.parametrize(("words", "said"), [
    ("", "the following arguments are required: COMMAND"),
    ("rewind", "unknown command 'rewind': expected one of ingest, whatif, usage, load, report"),
    ("ingest --out out", "the following arguments are required: --input"),
    ("ingest --input events", "the following arguments are required: --out"),
    (f"{INGEST} --tz Nowhere", "unknown time zone 'Nowhere'"),
    (f"{INGEST} --format xml", "argument --format: invalid choice: 'xml'"),
    (f"{INGEST} --max-bad-ratio 1.1", "expected a number from 0 to 1, found '1.1'"),
    (f"{INGEST} --max-bad-ratio nan", "expected a number from 0 to 1, found 'nan'"),
    (f"{INGEST} --max-b 0.1", "unrecognized arguments: --max-b 0.1"),
    (f"{INGEST} --conf a=secret word", "unrecognized arguments: put each argument into quotes"),
    (f"{INGEST} --master host:7077", "expected local[N], spark://HOST:PORT, yarn or k8s"),
    (f"{INGEST} --conf a", "expected KEY=VALUE, found a text without"),
    (f"{INGEST} --driver-memory 1", "expected a size such as 512m or 4g, found '1'"),
    (f"{INGEST} --executor-cores 0", "expected a whole number of at least 1, found '0'"),
    (f"{INGEST} --deploy-mode cluster", "--master local[*] cannot run a Python driver in"),
    ("whatif --events events --out o", "the following arguments are required: --acls"),
    (f"{USAGE} --lookback 0", "expected a number of days above 0, found '0'"),
    (f"{USAGE} --lookback inf", "expected a number of days above 0, found 'inf'"),
    (f"{USAGE} --names-max 1.5", "expected a whole number from 0 to 100000, found '1.5'"),
])  # fmt: skip
def test_wrong_arguments_are_named_before_the_help(
    submitted: Submitted, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words.split())
    assert ended.value.code == 2
    fault, help_line = capsys.readouterr().err.splitlines()
    assert fault.startswith("authorizerd replay")
    assert said in fault
    assert help_line.endswith("--help' for the options.")
    assert not submitted.plans


@pytest.mark.parametrize(("words", "said"), [
    ("ingest --input nowhere --out o", "nowhere: no such file or directory"),
    ("whatif --events nowhere --acls acls.txt --out o", "nowhere: no such file or directory"),
    ("usage --events nowhere --acls acls.txt --out o", "nowhere: no such file or directory"),
    ("ingest --input events --out acls.txt", "--out: acls.txt: not a directory"),
    ("ingest --input events --out .", "--out: .: not empty; --overwrite replaces its results"),
    ("whatif --events events --acls events --out o", "events: "),
])  # fmt: skip
def test_unusable_paths_are_named_in_one_line(
    submitted: Submitted, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    assert cli.main(words.split()) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"authorizerd replay: {said}")
    assert not submitted.plans


def test_only_overwrite_allows_a_directory_that_is_not_empty(
    submitted: Submitted, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert not submitted.run("ingest --input events --out empty").overwrite
    assert submitted.run("ingest --input events --out . --overwrite").overwrite


def make_plan_of_nothing() -> None:
    """Write a plan that deletes the ACL of ``acls.txt``, by settings of its own."""
    words = "acls plan none.yaml --acls acls.txt --out plan.json --super-users User:root"
    assert authorizerd([*words.split(), "--allow-everyone-if-no-acl-found"]) == 10


def test_whatif_compares_the_acls_before_and_after_a_plan(submitted: Submitted) -> None:
    make_plan_of_nothing()
    plan = submitted.run("whatif --events events --acls acls.txt --plan plan.json --out out")
    assert isinstance(plan, WhatIfPlan)
    assert plan.baseline is not None
    assert [dated.acl.principal for dated in plan.baseline.acls] == ["User:alice"]
    assert plan.candidate.acls == ()
    assert plan.candidate.digest == digest_of(())
    for each in (plan.baseline, plan.candidate):
        assert each.super_users == ("User:root",)
        assert each.allow_everyone_if_no_acl_found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--acls none.txt", "none.txt: expected the 1 ACLs that plan.json was made for, found 0"),
        ("--acls acls.txt --plan acls.txt", "acls.txt: "),
        ("--acls acls.txt --plan missing", "missing: No such file or directory"),
    ],
)
def test_whatif_rejects_a_plan_for_other_acls(
    words: str, message: str, submitted: Submitted, capsys: pytest.CaptureFixture[str]
) -> None:
    make_plan_of_nothing()
    command = f"whatif --events events --out out --plan plan.json {words}"
    assert cli.main(command.split()) == 1
    assert f"authorizerd replay: {message}" in capsys.readouterr().err
    assert not submitted.plans


@pytest.mark.parametrize(
    "flags",
    ["--baseline-acls none.txt", "--super-users User:a", "--allow-everyone-if-no-acl-found"],
)
def test_whatif_rejects_flags_that_a_plan_decides(
    flags: str, submitted: Submitted, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"whatif --events events --acls acls.txt --plan plan.json --out out {flags}"
    with pytest.raises(SystemExit) as ended:
        cli.main(words.split())
    assert ended.value.code == 2
    assert f"{flags.split()[0]}: expected either --plan or" in capsys.readouterr().err
    assert not submitted.plans
