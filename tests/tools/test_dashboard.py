from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.ops.exported_metrics import sample_names
from tests.ops.promtool import run_promtool
from tools.dashboard import dashboard

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
