"""Generated parts of the documentation: dashboard, metrics, OpenAPI, the table of surfaces."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator

from authorizerd.cli.sync.metrics import SYNC_METRICS
from authorizerd.cli.verify_metrics import FOLLOW_METRICS
from authorizerd.daemon.http.api_document import ADMIN_API, DECISION_API, describe_port
from authorizerd.daemon.telemetry.family import Family
from authorizerd.daemon.telemetry.metrics import METRICS
from tests.ops.exported_metrics import Exported, exported, exposition, run_promtool, sample_names
from tests.support.api_documents import DECISION_ENDPOINTS
from tools.dashboard import dashboard
from tools.metric_reference import reference
from tools.openapi import DOCS, write_page
from tools.surfaces import ENDPOINT_NEEDS
from tools.surfaces import PAGE as SURFACES_PAGE
from tools.surfaces import write_page as write_surfaces

GRAFANA = Path(__file__).parents[2] / "ops" / "grafana"
RULES = GRAFANA.parent / "prometheus" / "rules.yaml"
PANELS = dashboard()["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel.get("targets", ())]


@pytest.mark.parametrize("query", QUERIES)
def test_query_selects_instances_and_metrics_that_exist(query: str) -> None:
    """A renamed metric would leave an empty graph."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    recorded = {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}
    named = re.findall(r"([a-z][\w:]+)\{([^}]*)\}", query)
    assert named
    for name, labels in named:
        assert name in sample_names() | recorded
        assert 'instance=~"$instance"' in labels


def test_panels_do_not_overlap_and_fill_the_grid() -> None:
    places = [panel["gridPos"] for panel in PANELS]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert {x for x, _ in cells} == set(range(24))
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


def test_queries_are_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"query_{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, query in enumerate(QUERIES)
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(QUERIES)} rules found" in run_promtool("check", "rules", file)


def test_provisioning_agrees_with_the_mounts_of_compose() -> None:
    provisioning = GRAFANA / "provisioning"
    sources = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())
    assert [source["type"] for source in sources["datasources"]] == ["prometheus"]
    providers = yaml.safe_load((provisioning / "dashboards" / "authorizerd.yaml").read_text())
    path = providers["providers"][0]["options"]["path"]
    compose = yaml.safe_load((GRAFANA.parent / "container" / "compose.yaml").read_text())
    volumes = compose["services"]["grafana"]["volumes"]
    assert f"../grafana/dashboards:{path}:ro" in volumes
    assert "../grafana/provisioning:/etc/grafana/provisioning:ro" in volumes


ALL_METRICS: list[Family[Any]] = [*METRICS, *FOLLOW_METRICS, *SYNC_METRICS]
DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_reference_lists_exactly_the_exported_metrics() -> None:
    ours = {name: what for name, what in exported().items() if name.startswith("authorizerd_")}
    assert ours == {
        entry.name: Exported(entry.kind, frozenset(entry.labels), entry.help)
        for entry in ALL_METRICS
    }


def test_document_is_generated() -> None:
    assert DOCUMENT.read_text() == reference()


@pytest.mark.parametrize("entry", ALL_METRICS, ids=lambda entry: entry.name)
def test_help_and_advice_are_sentences_that_fit_a_table(entry: Family[Any]) -> None:
    for text in (entry.help, entry.advice):
        assert text[0] == text[0].upper()
        assert text.endswith(".")
        assert "|" not in text
    assert entry.unit


def test_names_follow_the_conventions_of_prometheus() -> None:
    assert run_promtool("check", "metrics", text=exposition()) == ""


@pytest.mark.parametrize("name", [
    *("authorizerd_acls", "authorizerd_workers", "authorizerd_audit_written_total"),
    *(f"authorizerd_{kind}_requests_refused_total" for kind in ("http", "stream", "kafka")),
    *("authorizerd_request_local_seconds_count", "process_resident_memory_bytes"),
])  # fmt: skip
def test_scrape_contains_each_kind_of_metric(name: str) -> None:
    """Otherwise promtool would not check it."""
    assert name in sample_names()


def test_page_is_up_to_date() -> None:
    """If this fails, run ``python -m tools.openapi``."""
    assert (DOCS / "api.md").read_text() == write_page()


@pytest.mark.parametrize("accepted", [(), ("token",)])
@pytest.mark.parametrize("name", [DECISION_API, ADMIN_API])
def test_documents_are_valid_by_openapis_own_schema(name: str, accepted: tuple[str, ...]) -> None:
    OpenAPIV31SpecValidator(json.loads((DOCS / name).read_text())).validate()
    OpenAPIV31SpecValidator(json.loads(describe_port(name, accepted))).validate()


@pytest.mark.parametrize("accepted", [(), ("token",)])
@pytest.mark.parametrize("name", [DECISION_API, ADMIN_API])
def test_every_schema_is_used(name: str, accepted: tuple[str, ...]) -> None:
    document = json.loads(describe_port(name, accepted))
    used = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document))
    assert set(used) == document["components"]["schemas"].keys()


@pytest.mark.parametrize("name", [DECISION_API, ADMIN_API])
def test_head_is_described_as_get(name: str) -> None:
    for operations in json.loads((DOCS / name).read_text())["paths"].values():
        if "get" in operations:
            get = operations["get"]
            own = {"operationId": f"{get['operationId']}Head"}
            own["summary"] = f"{get['summary']} (without the body)"
            assert operations["head"] == get | own


def test_every_object_and_field_of_a_request_is_explained() -> None:
    schemas = json.loads((DOCS / DECISION_API).read_text())["components"]["schemas"]
    assert [name for name, schema in schemas.items() if not schema.get("description")] == []


def test_table_is_up_to_date() -> None:
    """``python -m tools.surfaces`` updates it."""
    text = SURFACES_PAGE.read_text()
    assert "| decision stream | yes | `ask` |" in text
    assert write_surfaces(text) == text


def test_table_has_every_endpoint_that_needs_credentials() -> None:
    described = {
        f"{each.methods[0]} {each.path}" for each in DECISION_ENDPOINTS if not each.is_open
    }
    assert ENDPOINT_NEEDS.keys() == described
