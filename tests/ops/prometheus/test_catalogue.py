"""The table of metrics against what a real daemon exports."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ops.prometheus.catalogue import CATALOGUE, MetricEntry
from ops.prometheus.reference import reference
from tests.ops.exported_metrics import Exported, exported, exposition, sample_names

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_the_table_is_what_is_exported() -> None:
    """Names, types, labels and help texts, none more and none less."""
    ours = {name: what for name, what in exported().items() if name.startswith("authorizerd_")}
    assert ours == {
        entry.name: Exported(entry.kind, frozenset(entry.labels), entry.tells)
        for entry in CATALOGUE
    }


def test_the_document_is_the_table() -> None:
    """Written anew by ``python -m ops.prometheus.reference > docs/metrics.md``."""
    assert DOCUMENT.read_text() == reference()


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_a_metric_says_what_it_tells_and_what_to_do(entry: MetricEntry) -> None:
    """Whole sentences, a unit, and nothing that would end a cell of the table."""
    for text in (entry.tells, entry.advice):
        assert text[0] == text[0].upper()
        assert text.endswith(".")
        assert "|" not in text
    assert entry.unit


def test_names_follow_prometheus_conventions() -> None:
    """``promtool check metrics`` has no remark on all that a daemon exports."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian's package prometheus has it)")
    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=exposition(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_the_scrape_holds_every_kind_of_metric() -> None:
    """Or promtool would have nothing to say of those that are missing."""
    for name in (
        "authorizerd_acls", "authorizerd_workers", "authorizerd_audit_written_total",
        "authorizerd_http_requests_refused_total", "authorizerd_stream_requests_refused_total",
        "authorizerd_kafka_requests_refused_total", "authorizerd_request_local_seconds_count",
        "process_resident_memory_bytes",
    ):  # fmt: skip
        assert name in sample_names(), name
