"""All jobs of ``authorizerd replay`` on a standalone Spark cluster: by hand, Airflow and Connect.

The workers' Python has only three modules. Results must equal those without Spark, byte for byte.
"""

import json
import lzma
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from authorizerd.replay.submit.prerequisites import find_spark_home
from authorizerd.replay.whatif.report import decode_whatif
from tests.end_to_end.spark_cluster import (
    CLUSTER_SETTINGS,
    LOAD_SETTINGS,
    SparkCluster,
    running_cluster,
    running_connect,
)
from tests.ops.replay.local.judged import check_whatif, set_of
from tests.ops.replay.local.random_runs import random_set, write_random_logs
from tests.oracles.recorded import read_logs, whatif_code
from tests.support.daemon_process import DaemonProcess, running, wait_until
from tests.support.log_files import added, write_log
from tests.support.programs import run_program

LINES = 13_518  # in the broker's audit log
SECONDS_MAX = 600.0
SETS_OF_LOGS = 20
"""The random sets of ACLs that judge the same random logs."""
COMMAND = (sys.executable, "-P", "-m", "authorizerd.cli.main")
REPLAY = (*COMMAND, "replay")
PAGE = Path(__file__).parents[2] / "docs/replay-clusters.md"
AIRFLOW = Path(__file__).parents[2] / ".venv-airflow/bin/python"
"""Airflow, which ``make conformance`` installs."""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def inputs(real_log_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the audit log, and the results without Spark."""
    folder = tmp_path_factory.mktemp("inputs")
    with lzma.open(real_log_dir / "kafka-authorizer.log.xz") as log:
        (folder / "audit.log").write_bytes(log.read())
    listed = (real_log_dir / "acls-list.txt").read_text().splitlines(keepends=True)
    kept = [line for line in listed if "principal=User:growth-svc-31," not in line]
    (folder / "candidate.txt").write_text("".join(kept))
    for command, acls in (("whatif", folder / "candidate.txt"), ("usage", real_log_dir)):
        words = ("--logs", "audit.log", "--acls", str(acls), "--out", command, "--engine", "local")
        ran = run_here([*REPLAY, command, *words], folder)
        assert ran.returncode in (0, 3), ran.stderr
    return folder


@pytest.fixture(scope="module")
def daemon(real_log_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("daemon")
    log = shutil.copytree(real_log_dir, folder / "log")
    with running(folder, log) as started:
        yield started


def run_here(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return run_program(*words, cwd=folder)


def read_result(path: Path) -> str:
    """Return a text that the job wrote as a file, or as a directory with one part file."""
    if path.is_file():
        return path.read_text()
    (part,) = (each for each in path.glob("part-*") if each.stat().st_size)
    return part.read_text()


def check_jobs(run: Run, inputs: Path, out: Path, acls: Path, daemon: DaemonProcess) -> None:
    """Run all jobs, and compare what they write with the results without Spark."""
    table = (out / "table").as_uri()
    ran = run("ingest", "--input", (inputs / "audit.log").as_uri(), "--out", table)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    ingested = json.loads(read_result(out / "table/ingest.json"))
    assert (ingested["accepted"], ingested["lines"], ingested["events"]) == (True, LINES, LINES)

    def evaluate(command: str, acls: Path, code: int) -> None:
        place = out / command
        words = ("--events", table, "--acls", str(acls), "--out", place.as_uri())
        ran = run(command, *words)
        assert ran.returncode == code, ran.stdout + ran.stderr
        for name in (f"{command}.json", "commands.sh")[: 2 if command == "usage" else 1]:
            assert read_result(place / name) == (inputs / command / name).read_text()

    evaluate("whatif", inputs / "candidate.txt", 3)
    evaluate("usage", acls, 0)
    target = daemon.ready["decision_stream"]
    paces = ("--rate", "4000", "--max-send-lag", "60000", "--lanes", "2")
    place = (out / "load").as_uri()
    ran = run("load", "--events", table, "--target", target, "--out", place, *paces)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    load: dict[str, Any] = json.loads(read_result(out / "load/load.json"))
    # The daemon has the ACLs at the end of the log, so some of its answers differ.
    assert (load["valid"], load["errors"]) == (True, {})
    assert load["answered"] == load["sent"] == load["plan"]["questions"] > 0


def test_workers_python_cannot_import_the_project(cluster: SparkCluster) -> None:
    for package in ("authorizerd", "ops", "pyspark", "pandas"):
        alone = run_program(
            cluster.python, "-c", f"import {package}", cwd=cluster.folder, env=cluster.environment
        )
        assert f"No module named '{package}'" in alone.stderr


def test_standalone_cluster_runs_the_package(
    cluster: SparkCluster, inputs: Path, real_log_dir: Path, daemon: DaemonProcess, tmp_path: Path
) -> None:
    packed = run_here([*REPLAY, "package", "--out", str(tmp_path / "files")], tmp_path)
    script = packed.stdout.split()[1:-2]
    settings = {
        **CLUSTER_SETTINGS,
        **LOAD_SETTINGS,
        "spark.pyspark.python": str(cluster.python),
        "spark.pyspark.driver.python": sys.executable,
    }
    confs = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    submit = find_spark_home(None, os.environ) / "bin/spark-submit"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return run_here(
            [str(submit), "--master", cluster.master, *confs, *script, *words], tmp_path
        )

    check_jobs(run, inputs, tmp_path, real_log_dir, daemon)


def test_command_submits_to_the_cluster(
    cluster: SparkCluster, inputs: Path, tmp_path: Path
) -> None:
    words = (
        *("ingest", "--input", (inputs / "audit.log").as_uri(), "--out", (tmp_path / "t").as_uri()),
        *("--master", cluster.master, "--python", str(cluster.python)),
        *("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"),
    )
    ran = run_here([*REPLAY, *words], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(read_result(tmp_path / "t/ingest.json"))["events"] == LINES


@pytest.mark.skipif(
    not AIRFLOW.exists(), reason="Airflow is not installed: make .venv-airflow/.setup"
)
def test_airflow_runs_the_documented_task(
    cluster: SparkCluster, inputs: Path, tmp_path: Path
) -> None:
    """An exit code that is not 0 fails a task: the page calls that a gate."""
    run_here([*REPLAY, "package", "--out", str(tmp_path)], tmp_path)
    (tmp_path / "2026-11-30").mkdir()
    (tmp_path / "2026-11-30/audit.log").symlink_to(inputs / "audit.log")
    (task,) = re.findall("```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for named, real in {
        "/opt/replay/bin/python": sys.executable,
        "/opt/replay": str(tmp_path),
        "s3a://logs/{{ds}}/*.gz": f"file:{tmp_path}/{{{{ ds }}}}/*.log",
        "s3a://replay": tmp_path.as_uri(),
        "conf={": f"conf={{**{CLUSTER_SETTINGS}, ",
    }.items():
        assert named in task
        task = task.replace(named, real)
    submit = find_spark_home(None, os.environ) / "bin"
    environment = {
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": cluster.master}),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "PATH": f"{submit}:{os.environ['PATH']}",
    }

    def execute(change: str) -> tuple[int, str]:
        render = 'ingest.render_template_fields({"ds": "2026-11-30"})'
        script = f"{task}\n{render}\n{change}\ningest.execute({{}})"
        ran = run_program(AIRFLOW, "-c", script, cwd=tmp_path, env=environment)
        return ran.returncode, ran.stdout + ran.stderr

    code, said = execute("")
    assert code == 0, said
    assert "INFO DAGScheduler" not in said, "the level of the log applies once Spark has started"
    assert json.loads((tmp_path / "table/ingest.json").read_text())["events"] == LINES
    words = ["whatif", "--events", (tmp_path / "table").as_uri()]
    words += ["--acls", str(inputs / "candidate.txt"), "--out", (tmp_path / "whatif").as_uri()]
    code, said = execute(f"ingest.application_args = {words}")
    assert code == 1
    assert "Error code is: 3" in said
    result = Path("whatif/whatif.json")
    assert (tmp_path / result).read_text() == (inputs / result).read_text()


def test_oracle_finds_what_the_cluster_finds_of_random_sets(
    cluster: SparkCluster, tmp_path: Path, seed: int
) -> None:
    """Each set is a command. REPLAY_CLUSTER_SETS=200 tries more of them, by Connect."""
    drawn = random.Random(seed)
    submitted = (
        *("--master", cluster.master, "--python", str(cluster.python)),
        *("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"),
    )
    check_random_sets(drawn, tmp_path / "submitted", submitted, 1)
    count = int(os.environ.get("REPLAY_CLUSTER_SETS", "2"))
    with running_connect(cluster) as url:
        for first in range(0, count, SETS_OF_LOGS):
            sets = min(SETS_OF_LOGS, count - first)
            check_random_sets(drawn, tmp_path / f"connect-{first}", ("--remote", url), sets)


def check_random_sets(
    drawn: random.Random, folder: Path, options: tuple[str, ...], count: int
) -> None:
    """Judge random logs by random sets of ACLs on the cluster, and by the oracle."""
    folder.mkdir()
    write_random_logs(drawn, folder / "logs")
    asked = read_logs(folder / "logs")
    table = ("--events", (folder / "table").as_uri())
    ingest = ("--input", (folder / "logs").as_uri(), "--out", table[1], "--max-bad-ratio", "0.5")
    ran = run_here([*REPLAY, "ingest", *ingest, *options], folder)
    assert ran.returncode == 0, ran.stderr
    for number in range(count):
        candidate, baseline = random_set(drawn), random_set(drawn) if number % 2 else None
        words = ["--super-users", ";".join(candidate.super_users or ())]
        words += ["--allow-everyone-if-no-acl-found"] * bool(
            candidate.allow_everyone_if_no_acl_found
        )
        if len(candidate.releases) == 1:
            words += ["--kafka-release", str(candidate.releases[0])]
        for option, acl_set in (("--acls", candidate), ("--baseline-acls", baseline)):
            if acl_set is not None:
                # A log, since documents of ACLs reject some of these.
                log = folder / f"{option}-{number}"
                write_log(log, [added(place, item.acl) for place, item in enumerate(acl_set.acls)])
                words += [option, str(log)]
        if baseline is not None:
            baseline = replace(candidate, acls=baseline.acls)
        out = folder / f"whatif-{number}"
        words += ["--out", out.as_uri(), "--engine", "spark"]
        ran = run_here([*REPLAY, "whatif", *table, *words, *options], folder)
        before = None if baseline is None else set_of(baseline)
        assert ran.returncode == whatif_code(asked, set_of(candidate), before), ran.stderr
        report = decode_whatif(read_result(out / "whatif.json"))
        check_whatif(report, asked, candidate, baseline)


def test_connect_runs_all_jobs_and_ends_them_with_the_command(
    cluster: SparkCluster, inputs: Path, real_log_dir: Path, daemon: DaemonProcess, tmp_path: Path
) -> None:
    with running_connect(cluster) as url:

        def words_of(*words: str) -> list[str]:
            return [*REPLAY, *words, "--remote", url]

        check_jobs(
            lambda *words: run_here(words_of(*words), tmp_path),
            inputs, tmp_path, real_log_dir, daemon,
        )  # fmt: skip
        words = [*COMMAND, "verify", "--log-dir", str(real_log_dir), "--json", "--logs"]
        local = run_here([*words, str(inputs / "audit.log")], tmp_path)
        ran = run_here([*words, (inputs / "audit.log").as_uri(), "--remote", url], tmp_path)
        assert ran.stdout.replace("file://", "") == local.stdout != "", ran.stderr
        check_end(words_of, tmp_path, daemon)


def check_end(words_of: Callable[..., list[str]], folder: Path, daemon: DaemonProcess) -> None:
    """Stop the command of a long load: the server must stop sending as well."""
    words = ("--loop", "0", "--duration", "600", "--rate", "1000", "--max-send-lag", "60000")
    places = ("--events", (folder / "table").as_uri(), "--out", (folder / "long").as_uri())
    load = words_of("load", *places, "--target", daemon.ready["decision_stream"], *words)
    before = count_decisions(daemon)
    with subprocess.Popen(load, cwd=folder, stdout=subprocess.DEVNULL) as command:
        wait_until(
            lambda: count_decisions(daemon) > before + 1000, "the load has begun", SECONDS_MAX, 0.1
        )
        command.send_signal(signal.SIGTERM)
        assert command.wait(SECONDS_MAX) == 128 + signal.SIGTERM

    def is_idle() -> bool:
        counted = count_decisions(daemon)
        time.sleep(2.0)  # of a load of 1000 questions per second
        return count_decisions(daemon) == counted

    wait_until(is_idle, "the load has ended", SECONDS_MAX, 0.1)


def count_decisions(daemon: DaemonProcess) -> float:
    names = [f'{{result="{result}",surface="Stream"}}' for result in ("allowed", "denied")]
    return sum(daemon.metric(f"authorizerd_decisions_total{name}") for name in names)
