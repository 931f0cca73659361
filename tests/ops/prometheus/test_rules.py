"""The rules: what they ask for is exported, and each alert is tested and explained."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ops.exported_metrics import sample_names

ROOT = Path(__file__).parents[3]
RULES = ROOT / "ops" / "prometheus" / "rules.yaml"
STORIES = RULES.with_name("rules_test.yaml")
RUNBOOK = "docs/runbook.md"
FAMILY_OF_THREE = re.compile(r'__name__=~"authorizerd_\(http\|kafka\|stream\)_(\w+)"')


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_asks_for_what_is_exported_or_recorded(rule: dict[str, Any]) -> None:
    """A metric that is renamed would leave an alert behind that never fires."""
    known = sample_names() | {other["record"] for other in rules() if "record" in other}
    expression = FAMILY_OF_THREE.sub("", rule["expr"])
    named = set(re.findall(r"\b(?:instance\w*:)?(?:authorizerd|process|python)_[\w:]+", expression))
    for suffix in FAMILY_OF_THREE.findall(rule["expr"]):
        named |= {f"authorizerd_{kind}_{suffix}" for kind in ("http", "kafka", "stream")}
    assert named <= known
    assert named or "up{" in expression


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_says_what_is_wrong_and_where_to_read_on(alert: dict[str, Any]) -> None:
    """Severity, summary, description, and the place in the runbook that explains it."""
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


def test_the_stories_have_every_alert() -> None:
    """Each fires in one of them, by its name."""
    stories = STORIES.read_text()
    fired = set(re.findall(r'alertname="(\w+)"', stories))
    for story in yaml.safe_load(stories)["tests"]:
        fired |= {
            case["alertname"] for case in story.get("alert_rule_test", ()) if case["exp_alerts"]
        }
    assert fired == {alert["alert"] for alert in alerts()}


def test_promtool_tells_the_stories() -> None:
    """Each alert fires when it is to, and none does on a good day."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian's package prometheus has it)")
    told = subprocess.run(
        [promtool, "test", "rules", str(STORIES)], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
