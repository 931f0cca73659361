"""The words after ``authorizerd replay``: what plan they make, and how wrong ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.acl.model import Operation
from authorizerd.replay import cli
from authorizerd.replay.plans import IngestPlan, Plan, UsagePlan, WhatIfPlan
from authorizerd.replay.submit.options import SparkOptions

ACLS = """\
Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)`: 
 \t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)
"""  # noqa: W291 - as kafka-acls prints it


class Submitted:
    """What would have been submitted."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.options: list[SparkOptions] = []

    def __call__(self, plan: Plan, options: SparkOptions) -> int:
        self.plans.append(plan)
        self.options.append(options)
        return 3


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submitted:
    """A folder with events and ACLs to type commands in."""
    made = Submitted()
    monkeypatch.setattr(cli, "submit", made)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events").mkdir()
    (tmp_path / "acls.txt").write_text(ACLS)
    (tmp_path / "none.txt").write_text("")
    return made


def test_ingest_reads_what_is_named_here(submitted: Submitted, tmp_path: Path) -> None:
    """Paths are made absolute, globs and URIs are Spark's, and the job's exit code comes back."""
    words = "ingest --input events --input logs/*.log hdfs://name/audit --out out --tz +02:00"
    assert cli.main([*words.split(), "--max-bad-ratio", "0.5", "--format", "kafka"]) == 3
    assert submitted.plans == [
        IngestPlan(
            inputs=(f"{tmp_path}/events", f"{tmp_path}/logs/*.log", "hdfs://name/audit"),
            out=f"{tmp_path}/out",
            format="kafka",
            time_zone="+02:00",
            bad_ratio_max=0.5,
        )
    ]
    assert submitted.options == [SparkOptions()]


def test_paths_are_left_to_a_cluster(submitted: Submitted) -> None:
    """What is there, nobody can tell from here."""
    words = "ingest --input not/here --out events --master spark://host:7077"
    assert cli.main(words.split()) == 3
    (plan,) = submitted.plans
    assert isinstance(plan, IngestPlan)
    assert (plan.inputs, plan.out) == (("not/here",), "events")


def test_a_comparison_carries_the_acls_that_were_read_here(
    submitted: Submitted, tmp_path: Path
) -> None:
    """Both sets, under the same settings."""
    words = "whatif --events events --acls acls.txt --baseline-acls none.txt --out out"
    more = ["--super-users", "User:admin; User:root;", "--allow-everyone-if-no-acl-found"]
    assert cli.main([*words.split(), *more]) == 3
    (plan,) = submitted.plans
    assert isinstance(plan, WhatIfPlan)
    assert plan.events == f"{tmp_path}/events"
    assert [item.acl.operation for item in plan.candidate.acls] == [Operation.READ]
    assert plan.baseline is not None
    assert plan.baseline.acls == ()
    for read in (plan.candidate, plan.baseline):
        assert read.super_users == ("User:admin", "User:root")
        assert read.allow_everyone_if_no_acl_found
    words = "whatif --events events --acls acls.txt --out out --overwrite"
    cli.main(words.split())
    recorded = submitted.plans[1]
    assert isinstance(recorded, WhatIfPlan)
    assert recorded.baseline is None
    assert recorded.overwrite


def test_usage_is_judged_over_the_window_that_is_named(submitted: Submitted) -> None:
    """Days, and how many names are listed."""
    words = "usage --events events --acls acls.txt --lookback 1.5 --names-max 7 --out out"
    assert cli.main(words.split()) == 3
    (plan,) = submitted.plans
    assert isinstance(plan, UsagePlan)
    assert (plan.lookback_days, plan.names_max) == (1.5, 7)


def test_how_spark_runs_it_can_be_said(submitted: Submitted) -> None:
    """Every option arrives."""
    words = (
        "ingest --input x --out y --master yarn --deploy-mode cluster --conf a=b --conf c=d=e"
        " --archives env.tar.gz#env --spark-home /spark --python ./env/bin/python"
        " --driver-memory 1g --executor-memory 2G --executor-cores 2 --num-executors 4"
        " --print --verbose"
    )
    assert cli.main(words.split()) == 3
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("rewind", "invalid choice: 'rewind'"),
        ("ingest --out out", "the following arguments are required: --input"),
        ("ingest --input events", "the following arguments are required: --out"),
        ("ingest --input events --out o --tz Nowhere", "time zone 'Nowhere' is not known"),
        ("ingest --input events --out o --format xml", "argument --format: invalid choice: 'xml'"),
        ("ingest --input events --out o --max-bad-ratio 1.1", "'1.1' is not a number from 0 to 1"),
        ("ingest --input events --out o --max-bad-ratio nan", "'nan' is not a number from 0 to 1"),
        ("ingest --input events --out o --max-b 0.1", "unrecognized arguments: --max-b 0.1"),
        ("ingest --input events --out o --master host:7077", "'host:7077' is none of local[N]"),
        ("ingest --input events --out o --conf a", "expected KEY=VALUE, found a text without"),
        ("ingest --input events --out o --driver-memory 1", "'1' is not a size such as 512m or 4g"),
        ("ingest --input events --out o --executor-cores 0", "'0' is not a number from 1 on"),
        ("ingest --input events --out o --deploy-mode cluster", "--master local[*] runs Python"),
        ("whatif --events events --out o", "the following arguments are required: --acls"),
        ("usage --events events --acls acls.txt --out o --lookback 0", "'0' is not a number of da"),
        (
            "usage --events events --acls acls.txt --out o --lookback inf",
            "'inf' is not a number of",
        ),
        (
            "usage --events events --acls acls.txt --out o --names-max 1.5",
            "not a whole number from",
        ),
    ],
)
def test_wrong_arguments_are_named(
    submitted: Submitted, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    """Exit code 2, and nothing is submitted."""
    with pytest.raises(SystemExit) as ended:
        cli.main(words.split())
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert not submitted.plans


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("ingest --input nowhere --out o", "nowhere: no such file or directory"),
        ("whatif --events nowhere --acls acls.txt --out o", "nowhere: no such file or directory"),
        ("usage --events nowhere --acls acls.txt --out o", "nowhere: no such file or directory"),
        ("ingest --input events --out acls.txt", "--out: acls.txt: not a directory"),
        ("ingest --input events --out .", "--out: .: not empty; --overwrite replaces the results"),
        ("whatif --events events --acls events --out o", "events: "),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(
    submitted: Submitted, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    """Exit code 1, and nothing is submitted."""
    assert cli.main(words.split()) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"authorizerd replay: {said}")
    assert not submitted.plans


def test_an_earlier_result_is_replaced_when_that_is_said(
    submitted: Submitted, tmp_path: Path
) -> None:
    """An empty folder holds nothing to lose; another does."""
    (tmp_path / "empty").mkdir()
    for out in ("empty", ". --overwrite"):
        assert cli.main(f"ingest --input events --out {out}".split()) == 3
    assert [plan.overwrite for plan in submitted.plans] == [False, True]
