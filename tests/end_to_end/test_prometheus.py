"""A real Prometheus that scrapes a real daemon by the rules, and raises an alert."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from ops.grafana.dashboard import dashboard
from tests.end_to_end.prometheus_process import prometheus
from tests.end_to_end.test_audit import READ_ORDERS
from tests.end_to_end.test_durability import new_log
from tests.end_to_end.worker_processes import wait_until
from tests.support.daemon_process import ROOT, running

PROGRAM = shutil.which("prometheus")
RULES = ROOT / "ops" / "prometheus" / "rules.yaml"
INTERVAL = "250ms"


def write_prometheus_config(folder: Path, target: str) -> Path:
    """Write the rules, with nothing to wait for, and a configuration that scrapes ``target``."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        rule.pop("for", None)
    rules = folder / "rules.yaml"
    rules.write_text(json.dumps({"groups": groups}))
    settings = yaml.safe_load((RULES.parent / "prometheus.yaml").read_text())
    settings["global"] = {
        "scrape_interval": INTERVAL,
        "scrape_timeout": INTERVAL,
        "evaluation_interval": INTERVAL,
    }
    settings["rule_files"] = [str(rules)]
    settings["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    settings["scrape_configs"][0]["scrape_timeout"] = INTERVAL
    config = folder / "prometheus.yaml"
    config.write_text(json.dumps(settings))
    return config


@pytest.mark.skipif(PROGRAM is None, reason="prometheus is not installed (Debian's package)")
def test_an_alert_is_raised_while_the_audit_fails_and_no_longer(tmp_path: Path) -> None:
    """Every rule and every query of the dashboard can be evaluated on what was scraped."""
    assert PROGRAM is not None
    folder = tmp_path / "logs"
    folder.mkdir()
    settings = {"authorizerd.audit.log": str(folder / "audit.log")}
    with running(tmp_path, new_log(tmp_path), settings) as daemon:
        target = daemon.ready["admin_http"]
        config = write_prometheus_config(tmp_path, target)
        with prometheus(PROGRAM, config, tmp_path / "data") as server:
            wait_until(lambda: bool(server.query("authorizerd_acls")), "it is scraped")
            assert server.query('up{job="authorizerd"}')[0]["metric"]["instance"] == target
            wait_until(
                lambda: bool(server.query("instance:authorizerd_snapshot_lag:offsets")), "recorded"
            )
            wait_until(lambda: not server.firing(), "all is well")

            folder.rename(tmp_path / "gone")
            assert daemon.evaluate(READ_ORDERS).json["decision"] is False
            wait_until(lambda: "AuthorizerdAuditFailing" in server.firing(), "it is raised")
            alert = server.firing()["AuthorizerdAuditFailing"]
            assert alert["labels"]["severity"] == "critical"
            assert (
                alert["annotations"]["summary"] == f"authorizerd {target} cannot write audit lines."
            )

            folder.mkdir()
            wait_until(lambda: not server.firing(), "it has ended")

            wait_until(lambda: server.rules_health() == {"ok"}, "each rule can be evaluated")
            for panel in dashboard()["panels"]:
                for asked in panel.get("targets", ()):
                    expression = asked["expr"].replace("$__rate_interval", "1m")
                    server.query(expression.replace("$instance", ".*"))
