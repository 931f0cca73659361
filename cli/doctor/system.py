"""Check the machine: its clock, its limits, and the installed packages."""

from __future__ import annotations

import platform
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

from authorizerd.cli.doctor.finding import Finding, error, ok, warning
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.endpoints import connections_wanted
from authorizerd.daemon.net.fd_limit import OTHER_FILES
from authorizerd.daemon.utc_time import format_utc

DISTRIBUTION: Final = "authorizerd"
CLOCK_START_S: Final = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
"""This version was released later, so an earlier time means that the clock was never set."""
CLOCK_SAMPLE_S: Final = 0.02
CLOCK_STEP_S: Final = 0.005
PYTHON_LEAST: Final = (3, 11)

_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)(?!.*\bextra\b)")


def examine_clock() -> Iterator[Finding]:
    """Examine the clock, whose time is written to audit lines and checkpoints."""
    wall_s, steady_s = time.time(), time.monotonic()
    time.sleep(CLOCK_SAMPLE_S)
    step_s = (time.time() - wall_s) - (time.monotonic() - steady_s)
    yield judge_clock(wall_s, step_s)


def judge_clock(wall_s: float, step_s: float) -> Finding:
    """Judge a clock that shows ``wall_s`` and has just gained ``step_s`` on the monotonic clock."""
    shown = format_utc(wall_s)
    advice = "let chrony or systemd-timesyncd set the clock"
    if wall_s < CLOCK_START_S:
        return error("clock", f"{shown} is in the past: the clock was never set", advice)
    if abs(step_s) > CLOCK_STEP_S:
        moved = f"{step_s * 1000:+.0f} ms in {CLOCK_SAMPLE_S * 1000:.0f} ms"
        return warning("clock", f"{shown}, and it was just set: {moved}", advice)
    return ok("clock", shown)


def examine_limits(configuration: Configuration) -> Iterator[Finding]:
    """Check whether the limit on open files is high enough for all connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections_wanted(configuration)
    yield judge_limit(sum(wanted.values()) + OTHER_FILES, most)


def judge_limit(wanted: int, most: int) -> Finding:
    """Judge the hard limit; the daemon raises the soft one by itself."""
    limit = "any number of" if most == resource.RLIM_INFINITY else f"{most}"
    text = f"{limit} files may be open, and max.connections needs {wanted}"
    if most == resource.RLIM_INFINITY or most >= wanted:
        return ok("limits", text)
    return warning("limits", text, "raise the hard limit (LimitNOFILE), or lower max.connections")


def examine_versions(installed: Callable[[str], str] = version) -> Iterator[Finding]:
    """Check whether Python is new enough and every requirement is installed."""
    python = platform.python_version()
    if sys.version_info < PYTHON_LEAST:
        yield error("versions", f"Python {python} is too old", "install Python 3.11 or newer")
    found = [f"Python {python}"]
    for name in list_requirements(requires(DISTRIBUTION) or []):
        try:
            found.append(f"{name} {installed(name)}")
        except PackageNotFoundError:
            advice = f"pip install --force-reinstall {DISTRIBUTION}"
            yield error("versions", f"{name} is not installed", advice)
    yield ok("versions", ", ".join(found))


def list_requirements(requirements: Iterable[str]) -> list[str]:
    """Return the distributions in ``requirements``, except those that only an extra needs."""
    matches = map(_REQUIREMENT.match, requirements)
    return [match[1] for match in matches if match is not None]
