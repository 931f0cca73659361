"""The command line of spark-submit, what it needs, and its process."""

import os
import shlex
import signal
import socket
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from authorizerd.replay.errors import SubmissionError
from authorizerd.replay.messages import STOP_FILE
from authorizerd.replay.submit import prerequisites
from authorizerd.replay.submit.files import WorkDirectory
from authorizerd.replay.submit.options import SparkOptions
from authorizerd.replay.submit.prerequisites import (
    check_connect,
    check_files,
    check_java,
    find_spark_home,
)
from authorizerd.replay.submit.process import StoppedError, run_submission
from authorizerd.replay.submit.submitter import REDACTED, Line, connect_line, spark_submit_line
from tests.ops.replay.submit.programs import write_java, write_program, write_spark

FILES = WorkDirectory(Path("/job"), "code.zip")


def line(options: SparkOptions) -> list[str]:
    return spark_submit_line(options, FILES, Path("/spark"), "whatif").words


def settings(options: SparkOptions) -> dict[str, str]:
    words = line(options)
    pairs = [words[index + 1] for index, word in enumerate(words) if word == "--conf"]
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def test_local_line_opens_no_network_port() -> None:
    assert line(SparkOptions()) == [
        *("/spark/bin/spark-submit", "--name", "authorizerd replay whatif"),
        *("--master", "local[*]", "--deploy-mode", "client"),
        *("--conf", "spark.ui.showConsoleProgress=false"),
        *("--conf", "spark.driver.bindAddress=127.0.0.1"),
        *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.memory=2g"),
        *("--conf", "spark.hadoop.fs.defaultFS=file:///", "--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.sql.shuffle.partitions=8"),
        *("--conf", f"spark.pyspark.driver.python={sys.executable}"),
        *("--conf", f"spark.pyspark.python={sys.executable}"), "--conf",
        "spark.driver.extraJavaOptions=-Dlog4j2.configurationFile=file:///job/log4j2.properties",
        *("--py-files", "/job/code.zip"),
        *("/job/authorizerd-replay.py", "--plan", "/job/plan.json"),
    ]  # fmt: skip


def test_cluster_keeps_its_own_defaults() -> None:
    options = SparkOptions(master="yarn", deploy_mode="cluster", python="./env/bin/python")
    assert settings(options) == {
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": "./env/bin/python",
    }
    assert line(options)[-5:] == [
        *("--files", "/job/plan.json", "/job/authorizerd-replay.py", "--plan", "plan.json")
    ]
    sized = SparkOptions(master="spark://host:7077", archives="env.tar.gz#env")
    words = line(sized)
    assert "spark.pyspark.python" not in settings(sized)
    assert words[words.index("--archives") + 1] == "env.tar.gz#env"


def test_conf_overrides_defaults_and_joins_java_options() -> None:
    options = SparkOptions(
        conf=(
            "spark.ui.enabled=true",
            "spark.driver.memory=8g",
            "spark.driver.extraJavaOptions=-Xss8m -Da=b",
        )
    )
    found = settings(options)
    assert (found["spark.ui.enabled"], found["spark.driver.memory"]) == ("true", "8g")
    assert found["spark.driver.extraJavaOptions"].endswith("log4j2.properties -Xss8m -Da=b")


@pytest.mark.parametrize(("setting", "shown"), [
    ("spark.hadoop.fs.s3a.secret.key=hunter2", f"spark.hadoop.fs.s3a.secret.key={REDACTED}"),
    ("spark.hadoop.fs.s3a.access.key=hunter2", f"spark.hadoop.fs.s3a.access.key={REDACTED}"),
    ("spark.ssl.keyPassword=hunter2=x", f"spark.ssl.keyPassword={REDACTED}"),
    ("spark.authenticate.Secret=hunter2", f"spark.authenticate.Secret={REDACTED}"),
    ("a=-Djavax.net.ssl.trustStorePassword=hunter2", f"a={REDACTED}"),
    *((f"spark.hadoop.fs.{key}=hunter2", f"spark.hadoop.fs.{key}={REDACTED}") for key in (
        "azure.account.key.a.dfs.core.windows.net", "azure.sas.c.a.blob.core.windows.net",
        "gs.auth.service.account.private.key", "s3a.encryption.key",
    )),
    ("spark.a.keyStorePass=hunter2", f"spark.a.keyStorePass={REDACTED}"),
    ("spark.executor.instances=2", "spark.executor.instances=2"),
])  # fmt: skip
def test_secret_is_used_but_not_shown(setting: str, shown: str) -> None:
    words = line(SparkOptions(conf=(setting,)))
    assert setting in words
    said = Line(words).show()
    seen = shlex.split(said)
    assert shown in seen
    assert "hunter2" not in said
    assert [word for word in seen if word != shown] == [word for word in words if word != setting]


def test_remote_line_hides_the_servers_token() -> None:
    line = connect_line("sc://host:15002/;use_ssl=true;token=hunter2", FILES)
    assert line.variables["SPARK_REMOTE"] == "sc://host:15002/;use_ssl=true;token=hunter2"
    assert not any("hunter2" in word for word in line.words)
    assert shlex.split(line.show()) == [
        *(f"SPARK_REMOTE=sc://host:15002/;{REDACTED}", "PYTHONPATH=/job/code.zip"),
        *(sys.executable, "-P", "/job/authorizerd-replay.py", "--plan", "/job/plan.json"),
    ]
    options = SparkOptions(remote="sc://host/;token=hunter2")
    assert "hunter2" not in repr(options)
    assert not options.is_local


def test_java_17_and_later_are_accepted_and_java_home_precedes_the_path(tmp_path: Path) -> None:
    path = f"{write_java(tmp_path / 'old', '11')}/bin:/usr/bin:/bin"
    for version in ("17", "17.0.15", "21.0.1", "25-ea"):
        home = write_java(tmp_path / version, version)
        check_java({"JAVA_HOME": str(home), "PATH": path})
    with pytest.raises(SubmissionError, match="java is Java 11; Spark 4 needs 17 or later"):
        check_java({"PATH": path})


@pytest.mark.parametrize(("program", "said"), [
    (None, "Java not found: .*bin/java': install Java 17 or later, or set JAVA_HOME"),
    ("#!/no/such/shell\n", "Java not found: .*bin/java'"),
    ("#!/bin/sh\necho hello >&2\n", "bin/java is Java of an unknown version"),
    ('#!/bin/sh\necho \'openjdk version "1.8.0_402"\' >&2\n', "is Java 8; Spark 4 needs 17"),
    ('#!/bin/sh\necho \'openjdk version "16"\' >&2\n', "is Java 16; Spark 4 needs 17 or later"),
])  # fmt: skip
def test_unusable_java_is_named(tmp_path: Path, program: str | None, said: str) -> None:
    if program is not None:
        write_program(tmp_path / "bin/java", program)
    with pytest.raises(SubmissionError, match=said):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize(("options", "said"), [
    ({"python": "missing/python"}, "--python: missing/python: expected a program that can be run"),
    ({"python": "audit.log"}, "--python: audit.log: expected a program that can be run"),
    ({"archives": "missing.tgz#env"}, "--archives: missing.tgz: expected a file, found none"),
    ({"archives": "audit.log,missing.tgz", "master": "yarn"}, "--archives: missing.tgz: expected"),
    # Only Spark can find these.
    ({"python": "./env/bin/python", "archives": "s3://a/env.tgz#env", "master": "yarn"}, None),
    ({"archives": "file:/env/*.tgz,*.tgz,[ab].tgz"}, None),
    ({"python": Path(sys.executable).name, "archives": "audit.log#env"}, None),
])  # fmt: skip
def test_missing_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], said: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    (tmp_path / "audit.log").touch()
    with nullcontext() if said is None else pytest.raises(SubmissionError, match=f"^{said}"):
        check_files(SparkOptions(**options))  # type: ignore[arg-type] # all are texts


def test_option_precedes_environment_precedes_pyspark(tmp_path: Path) -> None:
    named = write_spark(tmp_path / "named")
    other = write_spark(tmp_path / "other", version="4.1.1-rc1")
    environment = {"SPARK_HOME": str(other)}
    assert find_spark_home(named, environment) == named
    assert find_spark_home(None, environment) == other
    for version in ("3.5.6", "4.0.1", "5.0.0"):
        other = write_spark(tmp_path / version, version=version)
        expected = f"SPARK_HOME is {other}, with Spark {version}: expected Spark 4.1 or a later 4.x"
        with pytest.raises(SubmissionError, match=expected):
            find_spark_home(None, {"SPARK_HOME": str(other)})
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    assert find_spark_home(None, {}).name == "pyspark"


def test_missing_spark_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SubmissionError, match=f"--spark-home is {tmp_path}, but no Spark was"):
        find_spark_home(tmp_path, {})
    monkeypatch.setattr(prerequisites, "find_spec", lambda _: None)
    with pytest.raises(SubmissionError, match=r"install authorizerd\[replay\], set SPARK_HOME"):
        find_spark_home(None, {})
    with pytest.raises(SubmissionError, match=r"install authorizerd\[replay-connect\]"):
        check_connect("sc://host")


@pytest.mark.parametrize("address", ["127.0.0.1:{closed}", "127.0.0.1:99999", "[a"])
def test_unreachable_server_is_named_without_its_token(address: str) -> None:
    pytest.importorskip("grpc", reason="the client of Spark Connect is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"sc://{address.format(closed=taken.getsockname()[1])}"
        with pytest.raises(SubmissionError) as raised:
            check_connect(f"{url}/;token=hunter2")
        taken.listen()
        check_connect(f"sc://127.0.0.1:{taken.getsockname()[1]}/;token=a")
    assert str(raised.value).startswith(f"--remote: {url}: cannot connect: ")
    assert "hunter2" not in str(raised.value)


EXIT_CODE = 3
WATCH = f"""
import os, signal, sys, time
os.kill(os.getppid(), signal.SIGTERM)
while not os.path.exists(os.environ[{STOP_FILE!r}]):
    time.sleep(0.01)
"""
"""A job that has its command terminated, and waits until it is asked to end."""


def run(script: str, folder: Path) -> int:
    environment = {**os.environ, STOP_FILE: str(folder / "stop")}
    line = [sys.executable, "-c", script]
    return run_submission(line, environment, folder / "spark.log", verbose=False)[0]


def test_first_signal_lets_a_watch_end_by_itself(tmp_path: Path) -> None:
    assert run(f"{WATCH}\nsys.exit({EXIT_CODE})", tmp_path) == EXIT_CODE


def test_second_signal_ends_a_watch(tmp_path: Path) -> None:
    again = "os.kill(os.getppid(), signal.SIGINT)\ntime.sleep(600)"
    with pytest.raises(StoppedError) as stopped:
        run(f"{WATCH}\n{again}", tmp_path)
    assert stopped.value.number == signal.SIGINT


def test_signal_that_interrupts_no_wait_is_noticed(tmp_path: Path) -> None:
    """Another thread gets the signal, which is then like one that came just before the wait."""
    started, stop = tmp_path / "started", tmp_path / "stop"
    job = f"""
import os, pathlib, sys, time
pathlib.Path({str(started)!r}).touch()
ends = time.monotonic() + 60
while not os.path.exists({str(stop)!r}) and time.monotonic() < ends:
    time.sleep(0.01)
sys.exit({EXIT_CODE} if time.monotonic() < ends else 0)
"""

    def interrupt() -> None:
        while not started.exists():
            time.sleep(0.01)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    threading.Thread(target=interrupt, daemon=True).start()
    assert run(job, tmp_path) == EXIT_CODE
