"""With ``REQUIRE_TOOLS=1``, as in CI, a skipped test fails, unless ``tests/skips.toml`` permits it.

With ``REQUIRE_TOOLS=packages``, the Debian packages of that list are installed, and no test may be
skipped for one of them. ``python tests/support/skipped_tests.py`` prints those that are missing.
"""

import os
import shutil
import sys
import tomllib
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

REQUIRE_TOOLS: Final = "REQUIRE_TOOLS"
PACKAGES: Final = "packages"
SKIPS: Final = Path(__file__).parents[1] / "skips.toml"


@cache
def read_skips() -> dict[str, list[dict[str, str]]]:
    return tomllib.loads(SKIPS.read_text())


def missing_packages() -> list[str]:
    """Return the Debian packages whose programs are not installed, each once."""
    rows = read_skips()[PACKAGES]
    return sorted({row["package"] for row in rows if shutil.which(row["program"]) is None})


def is_permitted(reason: str, required: str) -> bool:
    """Return True if CI permits that a test is skipped for ``reason``."""
    listed = read_skips()
    rows = listed["permitted"] + ([] if required == PACKAGES else listed[PACKAGES])
    return any(reason.startswith(row["reason"]) for row in rows)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a test fail that is skipped without permission."""
    report = yield
    if not hasattr(report, "wasxfail"):
        _require(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let a module fail that is skipped as a whole without permission."""
    report = yield
    _require(report)
    return report


def _require(report: pytest.TestReport | pytest.CollectReport) -> None:
    required = os.environ.get(REQUIRE_TOOLS, "")
    if not (required and report.skipped and isinstance(report.longrepr, tuple)):
        return
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if not is_permitted(reason, required):
        report.outcome = "failed"
        report.longrepr = f"skipped, and tests/skips.toml does not permit it: {reason}"


if __name__ == "__main__":
    sys.stdout.write("".join(f"{package}\n" for package in missing_packages()))
