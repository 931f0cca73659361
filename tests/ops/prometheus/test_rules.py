import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from authorizerd.daemon.telemetry.metrics import METRICS
from tests.ops.exported_metrics import run_promtool, sample_names

ROOT = Path(__file__).parents[3]
FILE = ROOT / "ops" / "prometheus" / "rules.yaml"
STORIES = FILE.with_name("rules_test.yaml")
RUNBOOK = (ROOT / "docs/runbook.md").read_text()
SITE = "https://authorizerd.example/docs/"
FAMILY_OF_THREE = re.compile(r'__name__=~"authorizerd_\(http\|kafka\|stream\)_(\w+)"')
RULES = [rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_rule_uses_metrics_that_exist(rule: dict[str, Any]) -> None:
    """An alert on a renamed metric would never fire."""
    expression = FAMILY_OF_THREE.sub("", rule["expr"])
    named = names_in(expression)
    for suffix in FAMILY_OF_THREE.findall(rule["expr"]):
        named |= {f"authorizerd_{kind}_{suffix}" for kind in ("http", "kafka", "stream")}
    assert named <= known_names()
    assert named or "up{" in expression


def names_in(query: str) -> set[str]:
    return set(re.findall(r"\b(?:instance\w*:)?(?:authorizerd|process|python)_[\w:]+", query))


def known_names() -> frozenset[str]:
    return sample_names() | {rule["record"] for rule in RULES if "record" in rule}


def test_queries_beside_kafkas_names_are_promql_on_metrics_that_exist(tmp_path: Path) -> None:
    text = (ROOT / "docs/monitoring.md").read_text().partition("## Kafka's metrics")[2]
    queries = re.findall(r"^\| `.*\| `(.+)` \|$", text.partition("\n## ")[0], re.MULTILINE)
    assert len(queries) == 20
    for query in queries:
        assert names_in(query)
        assert names_in(query) <= known_names()
    selected = [query.replace("SELECT", 'instance="a:9182"') for query in queries]
    rules = [{"record": f"query_{place}", "expr": query} for place, query in enumerate(selected)]
    file = tmp_path / "queries.yaml"
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    assert "20 rules found" in run_promtool("check", "rules", file)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_alert_has_severity_summary_description_and_a_runbook(
    alert: dict[str, Any],
) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning"}
    name, annotations = alert["alert"], alert["annotations"]
    assert annotations.keys() == {"summary", "description", "runbook_url"}
    assert annotations["summary"].endswith(".")
    assert annotations["runbook_url"] == f"{SITE}runbook/#{name.lower()}"
    assert "**Means:**" in chapter(name)
    assert "**Do:**" in chapter(name)


def chapter(alert: str) -> str:
    found = re.search(rf"^### {alert}\n(.*?)(?=^##|\Z)", RUNBOOK, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no ### {alert} in docs/runbook.md"
    return found[1]


def test_runbook_names_each_cause_that_readyz_gives() -> None:
    source = (ROOT / "daemon/telemetry/readiness.py").read_text()
    methods = source.partition("\nclass Readiness")[2].partition("\ndef ")[0]
    begins = re.findall(r'return \(?\s*f?"([a-z ]+)', methods)
    causes = {begin.strip() for begin in begins} - {"ready"}
    assert {"loading", "waiting for the cluster", "decisions have stopped"} < causes
    text = " ".join(chapter("AuthorizerdNotReady").split())
    assert [cause for cause in sorted(causes) if f"`{cause}" not in text] == []


def test_each_metric_of_a_lasting_fault_has_an_alert() -> None:
    asked = " ".join(alert["expr"] for alert in ALERTS)
    faults = [entry.name for entry in METRICS if re.search("_(failing|fault|newer)$", entry.name)]
    assert len(faults) == 7
    assert [name for name in faults if name not in asked] == []


def test_each_alert_fires_in_a_story() -> None:
    stories = STORIES.read_text()
    fired = set(re.findall(r'alertname="(\w+)"', stories))
    for story in yaml.safe_load(stories)["tests"]:
        fired |= {
            case["alertname"] for case in story.get("alert_rule_test", ()) if case["exp_alerts"]
        }
    assert fired == {alert["alert"] for alert in ALERTS}


def test_promtool_accepts_the_stories() -> None:
    run_promtool("test", "rules", STORIES)
