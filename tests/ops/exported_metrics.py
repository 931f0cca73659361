"""What a real daemon exports, with all that it can have: workers, an audit, Kafka requests."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.daemon_process import ask, new_log, run, running


@dataclass(frozen=True)
class Exported:
    """One metric, named as in the catalogue; ``labels`` without a histogram's ``le``."""

    kind: str
    labels: frozenset[str]
    tells: str


@cache
def exposition() -> str:
    """Return what /metrics answers, scraped once for all tests."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = {
            "authorizerd.audit.log": str(folder / "audit.log"),
            "authorizerd.workers": "2",
        }
        with running(folder, new_log(folder), settings) as daemon:
            address = daemon.ready["listeners"]["PLAINTEXT"]
            run("acls", "--bootstrap-server", address, "--list")  # histograms begin with a request
            text = ask(daemon.admin, "GET", "/metrics").body.decode()
            assert daemon.stop()[0] == 0
    return text


@cache
def exported() -> dict[str, Exported]:
    """Return each family by its name, a counter's with ``_total``."""
    return {
        family.name + "_total" * (family.type == "counter"): Exported(
            family.type,
            frozenset().union(*(sample.labels for sample in family.samples)) - {"le"},
            family.documentation,
        )
        for family in text_string_to_metric_families(exposition())
    }


@cache
def sample_names() -> frozenset[str]:
    """Return what a query may name: of a histogram ``_bucket``, ``_sum`` and ``_count``."""
    return frozenset(
        sample.name
        for family in text_string_to_metric_families(exposition())
        for sample in family.samples
    )
