"""The dashboard: its file, its places, and its queries against what a real daemon exports."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from ops.grafana.dashboard import dashboard, text
from tests.ops.exported_metrics import sample_names

GRAFANA = Path(__file__).parents[3] / "ops" / "grafana"
RULES = GRAFANA.parent / "prometheus" / "rules.yaml"
QUERIES = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]


def test_the_file_is_what_the_table_makes() -> None:
    """Written anew by ``python -m ops.grafana.dashboard``."""
    assert (GRAFANA / "dashboards" / "authorizerd.json").read_text() == text()


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_asks_for_what_is_exported_or_recorded(query: str) -> None:
    """Of chosen instances alone; a metric that is renamed would leave an empty graph behind."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    recorded = {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}
    named = re.findall(r"([a-z][\w:]+)\{([^}]*)\}", query)
    assert named
    for name, labels in named:
        assert name in sample_names() | recorded
        assert 'instance=~"$instance"' in labels


def test_no_two_panels_share_a_place_or_a_number() -> None:
    """And none leaves the 24 columns of Grafana's grid."""
    panels = json.loads(text())["panels"]
    places = [panel["gridPos"] for panel in panels]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert {x for x, _ in cells} == set(range(24))
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_queries_are_promql(tmp_path: Path) -> None:
    """As promtool reads them, each as a rule of its own."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian's package prometheus has it)")
    rules = [
        {"record": f"query_{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, query in enumerate(QUERIES)
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    checked = subprocess.run(
        [promtool, "check", "rules", file], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(QUERIES)} rules found" in checked.stdout


def test_grafana_is_told_where_all_is() -> None:
    """The files of provisioning agree with the dashboard, and with where compose mounts it."""
    provisioning = GRAFANA / "provisioning"
    sources = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())
    assert [source["type"] for source in sources["datasources"]] == ["prometheus"]
    providers = yaml.safe_load((provisioning / "dashboards" / "authorizerd.yaml").read_text())
    path = providers["providers"][0]["options"]["path"]
    compose = yaml.safe_load((GRAFANA.parent / "container" / "compose.yaml").read_text())
    volumes = compose["services"]["grafana"]["volumes"]
    assert f"../grafana/dashboards:{path}:ro" in volumes
    assert "../grafana/provisioning:/etc/grafana/provisioning:ro" in volumes
