from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ops.exported_metrics import sample_names
from tests.ops.promtool import run_promtool

ROOT = Path(__file__).parents[3]
FILE = ROOT / "ops" / "prometheus" / "rules.yaml"
STORIES = FILE.with_name("rules_test.yaml")
RUNBOOK = "docs/runbook.md"
FAMILY_OF_THREE = re.compile(r'__name__=~"authorizerd_\(http\|kafka\|stream\)_(\w+)"')
RULES = [rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_rule_uses_metrics_that_exist(rule: dict[str, Any]) -> None:
    """An alert on a renamed metric would never fire."""
    known = sample_names() | {other["record"] for other in RULES if "record" in other}
    expression = FAMILY_OF_THREE.sub("", rule["expr"])
    named = set(re.findall(r"\b(?:instance\w*:)?(?:authorizerd|process|python)_[\w:]+", expression))
    for suffix in FAMILY_OF_THREE.findall(rule["expr"]):
        named |= {f"authorizerd_{kind}_{suffix}" for kind in ("http", "kafka", "stream")}
    assert named <= known
    assert named or "up{" in expression


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_alert_has_severity_summary_description_and_a_place_in_the_runbook(
    alert: dict[str, Any],
) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning"}
    name, annotations = alert["alert"], alert["annotations"]
    assert annotations.keys() == {"summary", "description", "runbook_url"}
    assert annotations["summary"].endswith(".")
    assert annotations["runbook_url"] == f"{RUNBOOK}#{name.lower()}"
    text = (ROOT / RUNBOOK).read_text()
    chapter = re.search(rf"^### {name}\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert chapter is not None, f"no ### {name} in {RUNBOOK}"
    assert "**Means:**" in chapter[1]
    assert "**Do:**" in chapter[1]


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
