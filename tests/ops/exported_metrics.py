import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import Mock

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from authorizerd.cli.sync.metrics import SYNC_METRICS, Status
from authorizerd.cli.verify_metrics import FOLLOW_METRICS
from authorizerd.protocol.verification import Counts, Findings
from tests.support.certificates import Authority
from tests.support.daemon_process import ask, new_log, run, running
from tests.support.issuer import KEY, jwk_of, jwks_of
from tests.support.programs import run_program


@dataclass(frozen=True)
class Exported:
    """One metric, named as in the catalogue; ``labels`` without a histogram's ``le``."""

    kind: str
    labels: frozenset[str]
    help: str


@cache
def exposition() -> str:
    """Return the bodies of /metrics, scraped once for all tests; each metric is in one of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "keys.json").write_bytes(jwks_of(jwk_of(KEY, "k1")))
        settings = {
            "authorizerd.audit.log": str(folder / "audit.log"),
            "authorizerd.workers": "2",
            "super.users": "User:ANONYMOUS",  # the follower lists the ACLs
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder}/keys.json",
            "authorizerd.metrics.http": "https://127.0.0.1:0",
            **Authority(folder).server_keys(),
        }
        with running(folder, new_log(folder), settings) as daemon:
            address = daemon.ready["listeners"]["PLAINTEXT"]
            run("acls", "--bootstrap-server", address, "--list")  # histograms begin with a request
            text = ask(daemon.admin, "GET", "/metrics").body.decode()
            text += _scrape_follower(folder, address, known=set(re.findall("# HELP (.*?) ", text)))
            assert daemon.stop()[0] == 0
    return text + collect_follow_metrics() + collect_sync_metrics()


def collect_follow_metrics() -> str:
    """Return what ``verify --follow`` exports, with a value for each label."""
    counts = Counts(not_judged={"reason": 1}, set_aside={"reason": 1})
    found = Findings(history="", window_ms=0, counts=counts)
    metrics = [each.collect(found) for each in FOLLOW_METRICS]
    return generate_latest(Mock(collect=lambda: metrics)).decode()


def collect_sync_metrics() -> str:
    """Return what ``authorizerd sync`` exports."""
    status = Status(directory_s=0)
    metrics = [metric for each in SYNC_METRICS if (metric := each.collect(status)) is not None]
    return generate_latest(Mock(collect=lambda: metrics)).decode()


def _scrape_follower(folder: Path, address: str, known: set[str]) -> str:
    """Return what a daemon that follows the one at ``address`` exports, except known metrics."""
    settings = {
        "authorizerd.source": "brokers",
        "authorizerd.writes": "as-self",
        "authorizerd.source.bootstrap.servers": address,
        "listeners": "PLAINTEXT://127.0.0.1:0",
    }
    (folder / "follower").mkdir()
    with running(folder / "follower", folder / "copy", settings) as follower:
        text = ask(follower.admin, "GET", "/metrics").body.decode()
        assert follower.stop()[0] == 0
    families = re.split("^(?=# HELP )", text, flags=re.MULTILINE)
    return "".join(each for each in families if each and each.split(" ", 3)[2] not in known)


@cache
def exported() -> dict[str, Exported]:
    """Return each family by its name, which ends in ``_total`` for a counter."""
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
    """Return the names that a query can use, such as a histogram's ``_bucket`` and ``_count``."""
    return frozenset(
        sample.name
        for family in text_string_to_metric_families(exposition())
        for sample in family.samples
    )


def run_promtool(*arguments: str | Path, text: str = "") -> str:
    """Return what promtool prints about ``text`` or a file; it must find no fault."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian's package prometheus has it)")
    done = run_program(promtool, *arguments, text=text, env={**os.environ, "GOGC": "400"})
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    return printed
