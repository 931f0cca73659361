"""A real Prometheus scrapes a real daemon, evaluates the rules and raises an alert."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.end_to_end.prometheus_process import prometheus
from tests.support.certificates import Authority, expired
from tests.support.daemon_process import ROOT, new_log, running, wait_until
from tests.support.requests import evaluation
from tools.dashboard import dashboard

PROGRAM = shutil.which("prometheus")
RULES = ROOT / "ops" / "prometheus" / "rules.yaml"
INTERVAL = "250ms"


def write_prometheus_config(folder: Path, target: str) -> Path:
    """Write the rules without their delays, and a configuration that scrapes ``target``."""
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
def test_alert_is_raised_only_while_the_audit_fails(tmp_path: Path) -> None:
    """Prometheus can evaluate every rule and every query of the dashboard."""
    assert PROGRAM is not None
    folder = tmp_path / "logs"
    folder.mkdir()
    settings = {"authorizerd.audit.log": str(folder / "audit.log")}
    with running(tmp_path, new_log(tmp_path), settings) as daemon:
        target = daemon.ready["admin_http"]
        config = write_prometheus_config(tmp_path, target)
        with prometheus(PROGRAM, config, tmp_path / "data") as server:
            wait_until(lambda: bool(server.query("authorizerd_acls")), "the daemon is scraped")
            assert server.query('up{job="authorizerd"}')[0]["metric"]["instance"] == target
            wait_until(
                lambda: bool(server.query("instance:authorizerd_snapshot_lag:offsets")),
                "a rule is recorded",
            )
            wait_until(lambda: not server.firing(), "no alert fires")

            folder.rename(tmp_path / "gone")
            assert daemon.evaluate(evaluation()).json["decision"] is False
            wait_until(lambda: "AuthorizerdAuditFailing" in server.firing(), "the alert is raised")
            alert = server.firing()["AuthorizerdAuditFailing"]
            assert alert["labels"]["severity"] == "critical"
            assert (
                alert["annotations"]["summary"] == f"authorizerd {target} cannot write audit lines."
            )

            folder.mkdir()
            wait_until(lambda: not server.firing(), "the alert has ended")

            wait_until(lambda: server.rules_health() == {"ok"}, "each rule is evaluated")
            for panel in dashboard()["panels"]:
                for asked in panel.get("targets", ()):
                    expression = asked["expr"].replace("$__rate_interval", "1m")
                    server.query(expression.replace("$instance", ".*"))


@pytest.mark.skipif(PROGRAM is None, reason="prometheus is not installed (Debian's package)")
def test_alert_is_raised_until_a_certificate_is_replaced(tmp_path: Path) -> None:
    assert PROGRAM is not None
    authority = Authority(tmp_path)
    hosts = "127.0.0.1", "localhost"
    settings = authority.server_keys() | {"authorizerd.metrics.http": "https://127.0.0.1:0"}
    authority.issue("server", *hosts, not_after=datetime.now(UTC) + timedelta(days=1))
    with running(tmp_path, new_log(tmp_path), settings) as daemon:
        config = write_prometheus_config(tmp_path, daemon.ready["admin_http"])
        with prometheus(PROGRAM, config, tmp_path / "data") as server:
            alerts = {"AuthorizerdCertificateExpires", "AuthorizerdCertificateExpiresSoon"}
            wait_until(lambda: server.firing().keys() == alerts, "the alerts are raised")
            labels = server.firing()["AuthorizerdCertificateExpires"]["labels"]
            assert (labels["severity"], labels["listener"]) == ("critical", "http")
            authority.issue("server", *hosts, not_after=expired())
            daemon.reload("is not reloaded: ")
            wait_until(
                lambda: "AuthorizerdReloadFailing" in server.firing(), "the reload is noticed"
            )
            authority.issue("server", *hosts)
            daemon.reload()
            wait_until(lambda: not server.firing(), "the alerts have ended")
