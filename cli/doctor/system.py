"""Check the machine: its clock, its limits, and the installed packages."""

from __future__ import annotations

import ctypes
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

DISTRIBUTION: Final = "authorizerd"
CLOCK_START_S: Final = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
"""This version was released later, so an earlier time means that the clock was never set."""
CLOCK_SAMPLE_S: Final = 0.02
CLOCK_STEP_S: Final = 0.005
PYTHON_LEAST: Final = (3, 11)

_NOT_SYNCHRONIZED: Final = 5
"""adjtimex(2): TIME_ERROR."""
_TIMEX_BYTES: Final = 512
"""More than a struct timex; all zeros, so that the call only reads the clock's state."""
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)(?!.*\bextra\b)")


def clock_findings() -> Iterator[Finding]:
    """Yield the findings about the clock, which times audit lines and checkpoints."""
    wall_s, steady_s = time.time(), time.monotonic()
    time.sleep(CLOCK_SAMPLE_S)
    step_s = (time.time() - wall_s) - (time.monotonic() - steady_s)
    yield clock_finding(wall_s, step_s, is_synchronized())


def clock_finding(wall_s: float, step_s: float, synchronized: bool | None) -> Finding:
    """Judge a clock at ``wall_s`` that moved ``step_s`` ahead of the monotonic clock."""
    shown = f"{datetime.fromtimestamp(wall_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
    advice = "let chrony or systemd-timesyncd set the clock"
    if wall_s < CLOCK_START_S:
        return error("clock", f"{shown} is in the past: the clock was never set", advice)
    if abs(step_s) > CLOCK_STEP_S:
        return warning("clock", f"{shown}, and it is being set by {step_s * 1000:.0f} ms", advice)
    if synchronized is False:
        return warning("clock", f"{shown}, and no time service keeps it right", advice)
    state = "kept right by NTP" if synchronized else "whether NTP keeps it right is not known"
    return ok("clock", f"{shown}, {state}")


def is_synchronized() -> bool | None:
    """Return True if the kernel reports a synchronized clock, None if it cannot tell."""
    try:
        state: int = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _NOT_SYNCHRONIZED


def limit_findings(configuration: Configuration) -> Iterator[Finding]:
    """Yield whether the limit of open files suffices for all connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections_wanted(configuration, configuration.reloadable.max_connections)
    yield limit_finding(sum(wanted.values()) + OTHER_FILES, most)


def limit_finding(wanted: int, most: int) -> Finding:
    """Judge the hard limit; the daemon raises the soft one by itself."""
    bound = "any number of" if most == resource.RLIM_INFINITY else f"{most}"
    text = f"{bound} files may be open, and max.connections needs {wanted}"
    if most == resource.RLIM_INFINITY or most >= wanted:
        return ok("limits", text)
    return warning("limits", text, "raise the hard limit (LimitNOFILE), or lower max.connections")


def version_findings(installed: Callable[[str], str] = version) -> Iterator[Finding]:
    """Yield whether Python is new enough and every requirement is installed."""
    python = platform.python_version()
    if sys.version_info < PYTHON_LEAST:
        yield error("versions", f"Python {python} is too old", "install Python 3.11 or newer")
    found = [f"Python {python}"]
    for name in required_names(requires(DISTRIBUTION) or []):
        try:
            found.append(f"{name} {installed(name)}")
        except PackageNotFoundError:
            yield error("versions", f"{name} is not installed", f"pip install {DISTRIBUTION} anew")
    yield ok("versions", ", ".join(found))


def required_names(requirements: Iterable[str]) -> list[str]:
    """Return the distributions of ``requirements`` that are needed without any extra."""
    matches = map(_REQUIREMENT.match, requirements)
    return [match[1] for match in matches if match is not None]
