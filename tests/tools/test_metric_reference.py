from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.daemon.telemetry.family import MetricFamily
from authorizerd.daemon.telemetry.metrics import METRICS
from tests.ops.exported_metrics import Exported, exported, exposition, sample_names
from tests.ops.promtool import run_promtool
from tools.metric_reference import reference

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_reference_lists_exactly_the_exported_metrics() -> None:
    ours = {name: what for name, what in exported().items() if name.startswith("authorizerd_")}
    assert ours == {
        entry.name: Exported(entry.kind, frozenset(entry.labels), entry.help) for entry in METRICS
    }


def test_document_is_generated() -> None:
    assert DOCUMENT.read_text() == reference()


@pytest.mark.parametrize("entry", METRICS, ids=lambda entry: entry.name)
def test_help_and_advice_are_sentences_that_fit_a_table(entry: MetricFamily) -> None:
    for text in (entry.help, entry.advice):
        assert text[0] == text[0].upper()
        assert text.endswith(".")
        assert "|" not in text
    assert entry.unit


def test_names_follow_the_conventions_of_prometheus() -> None:
    assert run_promtool("check", "metrics", text=exposition()) == ""


@pytest.mark.parametrize(
    "name",
    [
        *("authorizerd_acls", "authorizerd_workers", "authorizerd_audit_written_total"),
        *(f"authorizerd_{kind}_requests_refused_total" for kind in ("http", "stream", "kafka")),
        *("authorizerd_request_local_seconds_count", "process_resident_memory_bytes"),
    ],
)
def test_scrape_contains_each_kind_of_metric(name: str) -> None:
    """Otherwise promtool would not check it."""
    assert name in sample_names()
