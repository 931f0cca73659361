"""Take a picture of every page of the console, and measure how long each takes.

``python -m tests.end_to_end.console_shots FOLDER --acls 505000`` starts a daemon with 505,000 ACLs,
and writes ``FOLDER/505000/PAGE-SCHEME.png``. Look at the pictures after each change of a page. With
``--document``, it also writes the pictures of docs/console.md. With ``--times``, it takes no
pictures: it prints for each page how long the daemon takes, and what Chromium says of loading it.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import urlencode

from playwright.sync_api import BrowserContext, Page, sync_playwright

from authorizerd.acl.model import Acl
from authorizerd.management.formats.listing import write
from tests.loop.running import ALICE, ROOT, token_of, write_folder
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess, running
from tests.support.log_files import added, data_batch, removed
from tests.support.verification import STATE_KEY, write_findings

_WIDTH: Final = 1200
_LOADS: Final = 5
_LOADING: Final = """() => new Promise((done) => {
  let shift = 0;
  new PerformanceObserver((list) => list.getEntries().forEach((each) => shift += each.value))
    .observe({type: "layout-shift", buffered: true});
  new PerformanceObserver((list) => {
    const [paint] = list.getEntriesByName("first-contentful-paint");
    if (!paint) return;
    const [page] = performance.getEntriesByType("navigation");
    const answers = [page, ...performance.getEntriesByType("resource")];
    setTimeout(() => done({
      painted: paint.startTime,
      loaded: page.loadEventEnd,
      requests: answers.length,
      bytes: answers.reduce((sum, each) => sum + each.transferSize, 0),
      shift: shift,
      elements: document.getElementsByTagName("*").length,
    }), 100);
  }).observe({type: "paint", buffered: true});
})"""
_QUESTION: Final = {"resource_type": "TOPIC", "operation": "READ", "resource_name": "orders"}
_WHAT: Final = {"resource_type": "TOPIC", "operation": "READ", "principal": "User:billing"}
_CANDIDATES: Final = (
    acl("User:billing", "READ", topic="orders"),
    acl("User:report", "READ", topic="orders"),
    acl("User:report", "READ", topic="payments", host="10.0.0.7"),
)


def _path(page: str, **fields: str) -> str:
    return f"/console/{page}?{urlencode(fields)}" if fields else f"/console/{page}"


PAGES: Final = {
    "overview": _path(""),
    "live": _path("live"),
    "explain-allowed": _path("explain", **_QUESTION, principal="User:billing", host="10.0.0.7"),
    "explain-denied": _path("explain", **_QUESTION, principal="User:web"),
    "who": _path("who", **_QUESTION),
    "what": _path("what", **_WHAT),
    "what-resource": _path("what", **_WHAT, resource_name="orders"),
    "what-many": _path("what", **(_WHAT | {"principal": "User:many"})),
    "acls": _path("acls"),
    "acls-search": _path("acls", search="report"),
    "verify": _path("verify"),
    "matrix": _path("matrix"),
    "reach": _path("reach", principal="User:billing"),
    "reach-many": _path("reach", principal="User:many"),
    "risks": _path("risks"),
    "missing": _path("other"),
}
_HISTORY: Final = {**_QUESTION, "principal": "User:billing", "host": "10.0.0.7"}
DOCUMENTED: Final = ("explain-denied", "who", "history", "changes", "live", "matrix")
"""The pages whose pictures docs/console.md has."""


def example_acls(number: int) -> Iterator[Acl]:
    """Yield ACLs that show something on every page, and others until there are ``number``."""
    shown = [
        acl("User:billing", "READ", topic="orders"),
        acl("User:billing", "WRITE", topic="invoices"),
        acl("User:billing", "ALL", topic="billing-", pattern="PREFIXED"),
        acl("User:billing", "READ", topic="billing-secret", deny=True),
        acl("User:report", "READ", topic="orders", host="10.0.0.7"),
        acl("User:web", "WRITE", topic="orders"),
        acl("User:web", "DESCRIBE", topic="orders-archive"),
        acl("User:audit", "READ", topic="*"),
        acl("User:*", "READ", topic="orders", deny=True, host="10.0.0.99"),
        acl("User:mallory", "ALL", topic="*", deny=True),
        acl("User:billing", "READ", group="billing"),
        acl("User:CN=proxy,OU=edge,O=Example", "READ", topic="orders"),
    ]
    for each in range(number - len(shown)):
        principal = "User:many" if each % 5 == 0 else f"User:service-{each % 997:03}"
        yield acl(principal, "READ", topic=f"team-{each % 89}.events-{each:06}")
    yield from shown  # last, because histories reach back 10,000 changes


def write_changes(folder: Path, acls: int) -> None:
    """Add changes of the last weeks to the log, and the requests for most of them to the audit log.

    Some have no request there, and for some, two callers fit.

    Args:
        acls: how many ACLs ``write_folder`` has written.
    """
    lines: list[str] = []
    (segment,) = (folder / "log").glob("*/*.log")
    now_ms = time.time_ns() // 1_000_000
    with segment.open("ab") as file:
        for number in range(60):
            at_ms = now_ms - (60 - number) ** 2 * 600_000
            is_added = number % 5 < 3
            shown = acl(f"User:app-{number % 7}", "READ", topic=f"app.events-{number}")
            record = added(10**9 + number, shown) if is_added else removed(10**9 + number - 2)
            offset = 4 + acls + number  # after a leader, a version and two credentials
            file.write(data_batch(offset, [record], time_ms=at_ms))
            callers = (["ops"], ["ops"], ["ci"], ["ci", "ops"], [])[number % 5]
            request = "CreateAcls" if is_added else "DeleteAcls"
            time_text = datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%d %H:%M:%S,000")
            lines += (
                f"[{time_text}] DEBUG Principal = User:{caller} is Allowed operation = ALTER from"
                f" host = 10.0.0.1 on resource = Cluster:LITERAL:kafka-cluster for request ="
                f" {request} with resourceRefCount = 1 based on rule SuperUser\n"
                for caller in callers
            )
    (folder / "audit.log").write_text("".join(lines))


def measure_daemon(daemon: DaemonProcess, path: str) -> float:
    """Return the median time of five requests for a page, in milliseconds."""
    times: list[float] = []
    for _ in range(_LOADS):
        connection = HTTPConnection(daemon.ready["admin_http"], timeout=60)
        begun = time.perf_counter()
        connection.request("GET", path, headers={"Authorization": f"Bearer {token_of(ROOT)}"})
        connection.getresponse().read()
        times.append((time.perf_counter() - begun) * 1000)
        connection.close()
    return median(times)


def measure_browser(context: BrowserContext, path: str) -> dict[str, float]:
    """Return the medians of five loads of a page, each with an empty cache.

    The values are Chromium's own: the time until the first content is painted and the time until
    the page is loaded, both in milliseconds since the navigation began; requests; the bytes of the
    answers with their headers; the part of the window that moves while it loads; and elements.
    """
    loads: list[dict[str, float]] = []
    session = context.storage_state()
    for _ in range(_LOADS):
        assert context.browser is not None
        fresh = context.browser.new_context(storage_state=session)
        page = fresh.new_page()
        page.set_default_timeout(60_000)
        page.goto(path, wait_until="load")
        loads.append(page.evaluate(_LOADING))
        fresh.close()
    return {name: median(load[name] for load in loads) for name in loads[0]}


def print_times(daemon: DaemonProcess, pages: Mapping[str, str]) -> None:
    """Print for each page how long the daemon takes, and what Chromium reports of loading it."""
    site = f"http://{daemon.ready['admin_http']}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        context = browser.new_context(base_url=site)
        log_in(context.new_page())
        sys.stdout.write(
            f"{'page':16} daemon ms  painted ms  loaded ms  requests     KiB  shift  elements\n"
        )
        for name, path in pages.items():
            load = measure_browser(context, site + path)
            sys.stdout.write(
                f"{name:16} {measure_daemon(daemon, path):9.1f}  {load['painted']:10.0f}  "
                f"{load['loaded']:9.0f}  {load['requests']:8.0f}  {load['bytes'] / 1024:6.1f}  "
                f"{load['shift']:5.2f}  {load['elements']:8.0f}\n"
            )
        browser.close()


def ask_questions(daemon: DaemonProcess) -> None:
    """Ask some questions, so that the pages have something to show."""
    for number in range(60):
        user = ("billing", "mallory", "web", "report")[number % 4]
        body = (
            f'{{"subject":{{"type":"user","id":"{user}"}},"action":{{"name":"read"}},'
            f'"resource":{{"type":"topic","id":"orders"}},"context":{{"host":"10.0.0.{number}"}}}}'
        )
        connection = HTTPConnection(daemon.ready["decision_http"], timeout=60)
        headers = {"Authorization": f"Bearer {token_of(ROOT)}", "Content-Type": "application/json"}
        connection.request("POST", "/access/v1/evaluation", body, headers)
        connection.getresponse().read()
        connection.close()


def log_in(page: Page, user: str = ROOT) -> None:
    page.goto("/console/")
    page.get_by_label("Token").fill(token_of(user))
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Log out").wait_for()


def take_pictures(
    daemon: DaemonProcess, folder: Path, pages: Mapping[str, str], names: tuple[str, ...]
) -> None:
    """Write a picture of each page, in light and in dark.

    Args:
        pages: their paths by name.
        names: those to write; empty: all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for scheme in ("light", "dark"):
            context = browser.new_context(
                base_url=f"http://{daemon.ready['admin_http']}",
                color_scheme=scheme,
                viewport={"width": _WIDTH, "height": 800},
            )
            context.set_default_timeout(60_000)
            page = context.new_page()

            def save(name: str, page: Page = page, scheme: str = scheme) -> None:
                if not names or name in names:
                    page.screenshot(path=folder / f"{name}-{scheme}.png", full_page=True)

            page.goto("/console/")
            save("log-in")
            log_in(page)
            for name, path in pages.items():
                page.goto(path)
                if name == "live":  # the second sample has rates
                    page.wait_for_timeout(2500)
                save(name)
            page.goto(_path("plan"))
            save("what-if")
            page.get_by_label("Candidate ACLs").fill(write(_CANDIDATES).text)
            page.get_by_role("button", name="Compare").click()
            page.get_by_text("To add:").wait_for()
            save("what-if-compared")
            page.set_viewport_size({"width": 420, "height": 800})
            page.goto(PAGES["who"])
            save("who-narrow")
            page.set_viewport_size({"width": _WIDTH, "height": 800})
            page.get_by_role("button", name="Log out").click()
            log_in(page, ALICE)
            page.goto(PAGES["who"])
            save("who-refused")
            context.close()
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.end_to_end.console_shots")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--acls", type=int, default=20)
    parser.add_argument("--page", action="append", default=[], help="only this page")
    parser.add_argument("--times", action="store_true", help="measure instead")
    parser.add_argument("--document", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_folder(folder, example_acls(arguments.acls))
        write_changes(folder, arguments.acls)
        settings = {
            "authorizerd.console": "true",
            "authorizerd.tokens.file": str(folder / "tokens"),
            "authorizerd.audit.log": str(folder / "audit.log"),
            STATE_KEY: str(write_findings(folder / "state")),
        }
        with running(folder, folder / "log", settings, super_users=f"User:{ROOT}") as daemon:
            ask_questions(daemon)
            begin = str(max(0, arguments.acls - 5000))
            pages = PAGES | {"history": _path("history", **_HISTORY, as_of=begin)}
            day_ago = time.time_ns() // 1_000_000 - 86_400_000
            pages["changes"] = _path("changes", since=str(day_ago))
            if arguments.times:
                print_times(daemon, pages)
                return
            target = arguments.folder / str(arguments.acls)
            take_pictures(daemon, target, pages, tuple(arguments.page))
        if arguments.document:
            for page in DOCUMENTED:
                shutil.copy(target / f"{page}-light.png", f"docs/console-{page}.png")


if __name__ == "__main__":
    main()
