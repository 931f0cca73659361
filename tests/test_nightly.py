"""The script of all long tests, with a ``make`` that fails for one of them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.named_tests import ROOT
from tests.track_record.hours import read_runs


@pytest.fixture
def nightly(tmp_path: Path) -> Path:
    """A copy of the script, whose output is then below ``tmp_path``."""
    script = tmp_path / "clone" / ".ci" / "nightly"
    script.parent.mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "nightly", script)
    make = tmp_path / "bin" / "make"
    make.parent.mkdir()
    make.write_text('#!/bin/sh\necho "$*"\n[ "$1" != soak ]\n')
    make.chmod(0o755)
    return script


def run(script: Path, *parts: str, weekday: str = "1") -> tuple[int, list[str]]:
    """Return the exit code and the lines of both outputs."""
    path = f"{script.parents[2] / 'bin'}:{os.environ['PATH']}"
    ended = subprocess.run(
        [script, *parts], env={**os.environ, "PATH": path, "SEED": "7", "WEEKDAY": weekday},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout.splitlines()


def test_a_failed_part_ends_no_other_part(nightly: Path) -> None:
    code, lines = run(nightly)
    assert code == 1
    failed = [line.split()[0] for line in lines if " FAILED after " in line]
    passed = [line.split()[0] for line in lines if " passed after " in line]
    assert failed == ["soak", "soak-forward"]
    assert len(passed) == 15
    assert passed[-1] == "test-whole"


def test_score_of_mutations_is_weekly_unless_it_is_named(nightly: Path) -> None:
    assert [line.split()[0] for line in run(nightly, weekday="7")[1]][-1] == "mutation-score"
    assert run(nightly, "mutation-score")[0] == 0


def test_seed_and_limits_reach_the_command(nightly: Path) -> None:
    assert run(nightly, "stories")[0] == 0
    log = nightly.parents[1] / ".run" / "nightly" / "stories.log"
    assert log.read_text() == "stories STORIES=10000 SEED=7\n"


def test_each_part_is_a_run_for_the_track_record(nightly: Path) -> None:
    run(nightly, "stories", "soak")
    runs = read_runs(nightly.parents[1] / ".run" / "nightly" / "runs.jsonl")
    assert [(each.part, each.seed, each.passed) for each in runs] == [
        ("stories", 7, True),
        ("soak", 7, False),
    ]
    assert {each.commit for each in runs} == {"unknown"}


def test_only_named_parts_run(nightly: Path) -> None:
    code, lines = run(nightly, "chaos-alone", "faults")
    assert code == 0
    assert [line.split()[0] for line in lines] == ["faults", "chaos-alone"]


def test_unknown_part_is_an_error_that_lists_the_parts(nightly: Path) -> None:
    code, lines = run(nightly, "faults", "soaks")
    assert code == 2
    assert lines[0].startswith("nightly: unknown part 'soaks': expected one of faults stories fuzz")
