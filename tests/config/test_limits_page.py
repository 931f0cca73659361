"""The page about limits names keys, defaults, metrics and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from authorizerd.config.keys import KEYS_BY_NAME
from authorizerd.daemon.telemetry.metrics import METRICS as EXPORTED

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "limits.md").read_text()
LISTENER: Final = "listener.name.NAME."
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| `[a-z]", line)
]
LIMITS: Final = {row[0].strip("`"): row for row in ROWS if len(row) == 4}
TESTS: Final = re.findall(r"`(tests/[\w/]+\.py)` `(\w+)`", PAGE)
METRICS: Final = {
    name
    for pattern in re.findall(r"`(authorizerd_[\w*]+_total|authorizerd_updates_waiting)", PAGE)
    for name in (
        [pattern.replace("*", kind) for kind in ("http", "kafka", "stream")]
        if "*" in pattern
        else [pattern]
    )
}


def test_every_limit_on_connections_has_a_row() -> None:
    words = ("max.connection", "timeout.ms", "max.idle", "max.bytes", "max.request", "overload")
    others = {
        *("authorizerd.update.timeout.ms", "authorizerd.worker.timeout.ms"),
        "authorizerd.http.drain.timeout.ms",
        *("controller.quorum.request.timeout.ms", "controller.socket.timeout.ms"),
        "authorizerd.source.request.timeout.ms",
    }
    keys = {name for name in KEYS_BY_NAME if any(word in name for word in words)} - others
    assert keys <= LIMITS.keys()


@pytest.mark.parametrize("name", LIMITS)
def test_row_has_the_keys_default_and_metrics(name: str) -> None:
    _, default, _, metric = LIMITS[name]
    key = KEYS_BY_NAME[name.removeprefix(LISTENER)]
    value, _, note = default.partition(", ")
    expected = "none" if name.startswith(LISTENER) or not key.default else key.default
    assert value == expected
    assert (note == "at once") == (key.reloadable and not name.startswith(LISTENER))
    assert metric == "the same" or metric.startswith("`authorizerd_")


def test_metrics_of_the_page_are_exported() -> None:
    assert len(METRICS) > 5
    assert {entry.name for entry in EXPORTED} >= METRICS


@pytest.mark.parametrize(("file", "test"), TESTS, ids=[test for _, test in TESTS])
def test_named_test_exists(file: str, test: str) -> None:
    assert re.search(rf"def {test}\(", (ROOT / file).read_text())
