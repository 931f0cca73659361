from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from authorizerd.replay.submit.line import REDACTED, Line, connect_line, spark_submit_line
from authorizerd.replay.submit.options import SparkOptions
from authorizerd.replay.submit.work_directory import WorkDirectory

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
