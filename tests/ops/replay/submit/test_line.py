from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from authorizerd.replay.submit.line import REDACTED, show_line, spark_submit_line
from authorizerd.replay.submit.options import SparkOptions
from authorizerd.replay.submit.work_directory import WorkDirectory

FILES = WorkDirectory(path=Path("/job"), archive=Path("/job/code.zip"))


def line(options: SparkOptions) -> list[str]:
    return spark_submit_line(options, FILES, Path("/spark"), "whatif")


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
        *("--conf", "spark.driver.host=127.0.0.1"), *("--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.sql.shuffle.partitions=8"),
        *("--conf", f"spark.pyspark.driver.python={sys.executable}"),
        *("--conf", f"spark.pyspark.python={sys.executable}"), "--conf",
        "spark.driver.extraJavaOptions=-Dlog4j2.configurationFile=file:///job/log4j2.properties",
        *("--driver-memory", "2g"), *("--py-files", "/job/code.zip", "--files", "/job/plan.json"),
        *("/job/replay_job.py", "plan.json"),
    ]  # fmt: skip


def test_cluster_keeps_its_own_defaults() -> None:
    options = SparkOptions(master="yarn", deploy_mode="cluster", python="./env/bin/python")
    assert settings(options) == {
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": "./env/bin/python",
    }
    assert "--driver-memory" not in line(options)
    sized = SparkOptions(
        master="spark://host:7077",
        executor_memory="4g",
        executor_cores=2,
        num_executors=8,
        archives="env.tar.gz#env",
    )
    words = line(sized)
    assert "spark.pyspark.python" not in settings(sized)
    for flag, value in (
        ("--executor-memory", "4g"),
        ("--executor-cores", "2"),
        ("--num-executors", "8"),
        ("--archives", "env.tar.gz#env"),
    ):
        assert words[words.index(flag) + 1] == value


def test_conf_overrides_defaults_and_joins_java_options() -> None:
    options = SparkOptions(
        conf=(
            "spark.ui.enabled=true",
            "spark.driver.memory=8g",
            "spark.driver.extraJavaOptions=-Xss8m -Da=b",
        )
    )
    found = settings(options)
    assert found["spark.ui.enabled"] == "true"
    assert found["spark.driver.extraJavaOptions"].endswith("log4j2.properties -Xss8m -Da=b")
    assert "--driver-memory" not in line(options)


@pytest.mark.parametrize(("setting", "shown"), [
    ("spark.hadoop.fs.s3a.secret.key=hunter2", f"spark.hadoop.fs.s3a.secret.key={REDACTED}"),
    ("spark.hadoop.fs.s3a.access.key=hunter2", f"spark.hadoop.fs.s3a.access.key={REDACTED}"),
    ("spark.ssl.keyPassword=hunter2=x", f"spark.ssl.keyPassword={REDACTED}"),
    ("spark.authenticate.Secret=hunter2", f"spark.authenticate.Secret={REDACTED}"),
    ("a=-Djavax.net.ssl.trustStorePassword=hunter2", f"a={REDACTED}"),
    ("spark.executor.instances=2", "spark.executor.instances=2"),
])  # fmt: skip
def test_secret_is_used_but_not_shown(setting: str, shown: str) -> None:
    words = line(SparkOptions(conf=(setting,)))
    assert setting in words
    seen = shlex.split(show_line(words))
    assert shown in seen
    assert "hunter2" not in show_line(words)
    assert [word for word in seen if word != shown] == [word for word in words if word != setting]
