from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.replay.submit.errors import SubmissionError
from authorizerd.replay.submit.java import find_java
from tests.ops.replay.submit.programs import write_java, write_program


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.1", "25-ea"])
def test_java_17_and_later_are_accepted(tmp_path: Path, version: str) -> None:
    home = write_java(tmp_path, version)
    assert find_java({"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin"}) == home / "bin/java"


@pytest.mark.parametrize(
    ("version", "said"),
    [("1.8.0_402", "is Java 8;"), ("11.0.2", "is Java 11;"), ("16", "is Java 16;")],
)
def test_older_java_is_rejected(tmp_path: Path, version: str, said: str) -> None:
    home = write_java(tmp_path, version)
    with pytest.raises(SubmissionError, match=f"{said} Spark 4 needs 17 or later"):
        find_java({"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin"})


def test_java_home_takes_precedence_over_the_path(tmp_path: Path) -> None:
    new, old = write_java(tmp_path / "new", "21"), write_java(tmp_path / "old", "11")
    path = f"{old}/bin:/usr/bin:/bin"
    assert find_java({"JAVA_HOME": str(new), "PATH": path}) == new / "bin/java"
    with pytest.raises(SubmissionError, match="is Java 11"):
        find_java({"PATH": path})


def test_unusable_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match="Java not found: install Java 17 or later"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(
        SubmissionError, match=f"JAVA_HOME is {tmp_path}, but .*bin/java does not exist"
    ):
        find_java({"JAVA_HOME": str(tmp_path)})
    write_program(tmp_path / "bin/java", "#!/bin/sh\necho hello\n")
    with pytest.raises(SubmissionError, match="expected a version, found 'hello'"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    write_program(tmp_path / "bin/java", "#!/no/such/shell\n")
    with pytest.raises(SubmissionError, match="bin/java does not run"):
        find_java({"JAVA_HOME": str(tmp_path)})
