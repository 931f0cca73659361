"""With ``REQUIRE_TOOLS=1``, as in CI, a skipped test fails, unless ``tests/skips.toml`` permits it.

With ``REQUIRE_TOOLS=packages``, the Debian packages of that list are installed, and no test may be
skipped for one of them.
"""

import os
from collections.abc import Generator
from typing import Final

import pytest

from tests.support.missing_packages import PACKAGES, read_skips

REQUIRE_TOOLS: Final = "REQUIRE_TOOLS"


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
