from __future__ import annotations

import socket
from pathlib import Path

import pytest

from authorizerd.replay.submit import prerequisites
from authorizerd.replay.submit.errors import SubmissionError
from authorizerd.replay.submit.prerequisites import check_connect, check_java, find_spark_home
from tests.ops.replay.submit.programs import write_java, write_program, write_spark


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.1", "25-ea"])
def test_java_17_and_later_are_accepted(tmp_path: Path, version: str) -> None:
    check_java({"JAVA_HOME": str(write_java(tmp_path, version)), "PATH": "/usr/bin:/bin"})


def test_java_home_takes_precedence_over_the_path(tmp_path: Path) -> None:
    new, old = write_java(tmp_path / "new", "21"), write_java(tmp_path / "old", "11")
    path = f"{old}/bin:/usr/bin:/bin"
    check_java({"JAVA_HOME": str(new), "PATH": path})
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


def test_option_precedes_environment_precedes_pyspark(tmp_path: Path) -> None:
    named = write_spark(tmp_path / "named")
    other = write_spark(tmp_path / "other", version="4.1.1-rc1")
    environment = {"SPARK_HOME": str(other)}
    assert find_spark_home(named, environment) == named
    assert find_spark_home(None, environment) == other
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    assert find_spark_home(None, {}).name == "pyspark"


@pytest.mark.parametrize("version", ["3.5.6", "4.0.1", "5.0.0"])
def test_unsupported_version_is_rejected(version: str, tmp_path: Path) -> None:
    other = write_spark(tmp_path, version=version)
    expected = f"SPARK_HOME is {other}, with Spark {version}: expected Spark 4.1 or a later 4.x"
    with pytest.raises(SubmissionError, match=expected):
        find_spark_home(None, {"SPARK_HOME": str(other)})


def test_missing_spark_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SubmissionError, match=f"--spark-home is {tmp_path}, but no Spark was"):
        find_spark_home(tmp_path, {})
    monkeypatch.setattr(prerequisites, "find_spec", lambda _: None)
    with pytest.raises(SubmissionError, match=r"install authorizerd\[replay\], set SPARK_HOME"):
        find_spark_home(None, {})
    with pytest.raises(SubmissionError, match=r"install authorizerd\[replay-connect\]"):
        check_connect("sc://host")


def test_server_is_found_at_its_port() -> None:
    pytest.importorskip("grpc", reason="the client of Spark Connect is not installed")
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_connect(f"sc://127.0.0.1:{server.getsockname()[1]}/;token=a")


@pytest.mark.parametrize("address", ["127.0.0.1:{closed}", "127.0.0.1:99999", "[a"])
def test_unreachable_server_is_named_without_its_token(address: str) -> None:
    pytest.importorskip("grpc", reason="the client of Spark Connect is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"sc://{address.format(closed=taken.getsockname()[1])}"
        with pytest.raises(SubmissionError) as raised:
            check_connect(f"{url}/;token=hunter2")
    assert str(raised.value).startswith(f"--remote: {url}: cannot connect: ")
    assert "hunter2" not in str(raised.value)
