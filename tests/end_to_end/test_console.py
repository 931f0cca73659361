"""The console of a real daemon: where it is served, and what its first page shows."""

import json
import shutil
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import pytest

from authorizerd.config.bounds import ADMIN_CONNECTIONS_MAX
from tests.daemon.decision_place import entry
from tests.end_to_end.example_daemon import Ports
from tests.end_to_end.page_shell import Shell, run_page
from tests.support.daemon_process import (
    SECONDS_MAX,
    Answer,
    DaemonProcess,
    ask,
    ask_at,
    new_log,
    running,
    wait_until,
)
from tests.support.requests import evaluation

DENIED = 'authorizerd_decisions_total{result="denied",surface="AuthZEN"}'
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def browse(daemon: DaemonProcess, path: str, body: str | None = None, **headers: str) -> Answer:
    """Request a page; with a body, send a form."""
    address = daemon.ready["admin_http"]
    lines = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is None:
        return ask_at(address, "GET", path, headers=lines)
    return ask_at(address, "POST", path, body.encode(), FORM | lines)


def test_console_is_off_by_default(tmp_path: Path) -> None:
    with running(tmp_path, new_log(tmp_path)) as daemon:
        for path in ("/console/", "/console/static/console.css", "/"):
            assert browse(daemon, path).status == 404


@pytest.mark.parametrize("workers", ["1", "2"])
def test_console_is_beside_the_metrics(tmp_path: Path, workers: str) -> None:
    with running(
        tmp_path, new_log(tmp_path), {"authorizerd.console": "true"}, authorizerd_workers=workers
    ) as daemon:
        page = browse(daemon, "/console/")
        assert page.status == 200
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        text = page.body.decode()
        assert "<strong>Ready:</strong> 0 ACLs at log offset" in text
        for name, address in (
            ("PLAINTEXT", daemon.ready["listeners"]["PLAINTEXT"]),
            ("admin_http", daemon.ready["admin_http"]),
        ):
            cells = f'<td><code>{address}</code></td><td class="good">open</td>'
            assert f'<th scope="row">{name}</th>{cells}' in text
        assert f"<dt>Processes that decide</dt><dd>{workers}</dd>" in text
        assert ask(daemon.admin, "GET", "/healthz").body == b"alive\n"
        fields = {
            "principal": "User:a",
            "operation": "READ",
            "resource_type": "TOPIC",
            "resource_name": "t",
        }
        explained = browse(daemon, f"/console/explain?{urlencode(fields)}")
        assert explained.status == 200
        assert b"Denied" in explained.body
        as_of = browse(daemon, f"/console/explain?{urlencode(fields | {'as_of': '0'})}")
        assert b"As of offset 0" in as_of.body
        assert browse(daemon, "/console/", Host="evil.example").status == 403
        assert daemon.stop()[0] == 0


def test_strangers_keep_no_visitor_out(tmp_path: Path) -> None:
    """A page that needs no login does not establish a connection."""
    tokens = tmp_path / "tokens"
    tokens.write_text(entry("admin", "User:admin"))
    settings = {"authorizerd.console": "true", "authorizerd.tokens.file": str(tokens)}
    with running(tmp_path, new_log(tmp_path), settings) as daemon, ExitStack() as strangers:
        for _ in range(ADMIN_CONNECTIONS_MAX):
            stranger = HTTPConnection(daemon.ready["admin_http"], timeout=SECONDS_MAX)
            strangers.callback(stranger.close)
            assert ask(stranger, "GET", "/console/static/console.css").status == 200
        assert browse(daemon, "/console/").status == 401


@pytest.mark.parametrize("workers", ["1", "2"])
def test_live_page_counts_decisions_and_shows_trusted_visitors_no_names(
    tmp_path: Path, workers: str
) -> None:
    audit = tmp_path / "audit.log"
    settings = {"authorizerd.console": "true", "authorizerd.audit.log": str(audit)}
    with running(tmp_path, new_log(tmp_path), settings, authorizerd_workers=workers) as daemon:
        for _ in range(3):
            assert daemon.evaluate(evaluation("mallory", topic="t")).json["decision"] is False
        wait_until(lambda: audit.read_bytes().count(b"mallory") == 3, "the lines are written")
        wait_until(lambda: daemon.metric(DENIED) == 3, "the workers have reported their counts")
        page = browse(daemon, "/console/live").body.decode()
    assert "trusts its callers to ask, but not to see denials of others" in page
    assert "mallory" not in page
    row = page.partition('<th scope="row">AuthZEN</th>')[2].partition("</tr>")[0]
    assert row.count('<td class="number">3</td>') == 1
    for port in ("decision_http", "decision_stream", "admin_http", "PLAINTEXT"):
        assert f'<th scope="row">{port}</th>' in page


def test_denials_need_a_file_and_a_right(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(entry("a", "User:a"))
    settings = {"authorizerd.console": "true", "authorizerd.tokens.file": str(tokens)}
    log, caller = new_log(tmp_path), {"Authorization": "Bearer a.secret"}
    with running(tmp_path, log, settings) as daemon:
        assert b"Set authorizerd.audit.log" in browse(daemon, "/console/live", **caller).body
    settings["authorizerd.audit.log"] = str(tmp_path / "audit.log")
    with running(tmp_path, log, settings) as daemon:
        page = browse(daemon, "/console/live", **caller)
        assert page.status == 200
        assert b"may not see denials of others: authorizerd.callers.read does" in page.body
        assert daemon.stop()[0] == 0
    (tmp_path / "audit.log").unlink()
    settings |= {"authorizerd.callers.read": "User:a", "authorizerd.callers.ask": "User:a"}
    with running(tmp_path, log, settings) as daemon:
        page = browse(daemon, "/console/live", **caller)
        assert b"The end of the audit log contains no denials" in page.body
        for name in ("mallory", "mallory", "<script>alert(1)</script>", "\u202eevil"):
            question = json.dumps(evaluation(name, topic=name)).encode()
            headers = JSON | caller
            denied = ask(daemon.decision, "POST", "/access/v1/evaluation", question, headers)
            assert denied.json["decision"] is False
        audit = tmp_path / "audit.log"
        wait_until(lambda: audit.read_bytes().count(b"is Denied") == 4, "the lines are written")
        text = browse(daemon, "/console/live", **caller).body.decode()
    row = '<th scope="row"><bdi class="name">User:{}</bdi></th><td class="number">{}</td>'
    assert row.format("mallory", 2) in text
    assert row.format("&lt;script&gt;alert(1)&lt;/script&gt;", 1) in text
    assert row.format("\\u202eevil", 1) in text


@pytest.mark.skipif(
    shutil.which("openssl") is None or shutil.which("curl") is None,
    reason="openssl or curl is not installed",
)
def test_page_leads_from_nothing_to_a_console_over_tls(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        run_page("console.md", "tests/end_to_end/test_console.py", shell, Ports())
