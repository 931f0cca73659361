"""Parts are run one by one; a failed one never loses the others."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs import run_program
from tools.bench.__main__ import judge, measure
from tools.bench.figures import Row
from tools.bench.run import Run
from tools.bench.table import read_results

ROW = Row(what="decision", metric="p50", unit="ns", ours=400)


def run_quickly(directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return run_program(
        sys.executable, "-m", "tools.bench", "--quick", "--directory", directory, *more
    )


@pytest.mark.nightly
def test_quick_run_writes_a_file_for_each_part_and_prints_tables(tmp_path: Path) -> None:
    done = run_quickly(tmp_path, "--parts", "log-ins, in-memory")
    assert done.returncode == 0, done.stderr
    results = read_results(tmp_path / "bench/results")
    assert {*results} == {"in-memory", "log-ins"}
    assert done.stdout.index("### `in-memory`") < done.stdout.index("### `log-ins`")
    metrics = {row.metric for result in results.values() for row in result.rows}
    assert metrics >= {"update, p99", "load for each ACL", "log-ins", "log-ins per CPU-second"}
    assert "not in a quick run" in done.stdout


def test_unknown_part_is_rejected_with_the_known_ones(tmp_path: Path) -> None:
    done = run_quickly(tmp_path, "--parts", "http,htpt")
    assert done.returncode == 2
    assert "unknown part 'htpt': expected some of http,openfga,stream,search," in done.stderr


def test_parts_after_a_failed_one_are_measured(tmp_path: Path) -> None:
    def succeed(_run: Run) -> Iterator[Row]:
        yield ROW

    def fail(_run: Run) -> Iterator[Row]:
        yield ROW
        raise OSError("the daemon ended")

    def measure_nothing(_run: Run) -> Iterator[Row]:
        return iter(())

    def measure_twice(_run: Run) -> Iterator[Row]:
        return iter((ROW, ROW))

    parts = {"fail": fail, "nothing": measure_nothing, "twice": measure_twice, "good": succeed}
    results = {result.part: result for result in measure(Run(tmp_path), [*parts], parts)}
    assert {name: result.error for name, result in results.items()} == {
        "fail": "OSError: the daemon ended",
        "nothing": "MeasurementError: nothing was measured",
        "twice": "MeasurementError: measured twice: ('decision', 'p50')",
        "good": "",
    }
    assert results["good"].rows == results["fail"].rows == [ROW]


@pytest.mark.parametrize(
    ("ours", "unit", "enforced", "is_quick", "broken"),
    [
        (2.0, "ms", True, False, 0),
        (2.1, "ms", True, False, 1),
        (2.1, "ms", True, True, 0),
        (2.1, "ms", False, False, 0),
        (2.1, "MiB", True, True, 1),
    ],
)
def test_run_fails_if_a_limit_that_must_hold_is_exceeded(
    ours: float, unit: str, enforced: bool, is_quick: bool, broken: int
) -> None:
    """A quick run's times mean nothing, because tests run it on busy machines."""
    row = Row(what="loop", metric="step", unit=unit, ours=ours, limit=2, enforced=enforced)
    assert judge([row], is_quick=is_quick) == broken
