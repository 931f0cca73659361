"""The console in a real Chromium: accessible, safe with hostile names, and usable without script.

axe-core checks each page by the rules of WCAG. It comes with the package axe-playwright-python.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from authorizerd.acl.model import Acl
from authorizerd.management.formats.listing import write
from tests.loop.running import ROOT, token_of, write_folder
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess, running
from tests.support.sizes import size
from tests.support.verification import STATE_KEY, write_findings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Without these libraries, which `make setup-dev` installs, the tests are skipped.
axe = pytest.importorskip("axe_playwright_python.sync_playwright")
playwright_api = pytest.importorskip("playwright.sync_api")

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed (Debian's package chromium has it)"
)

HOSTILE = (
    "<script>document.title = 'owned'</script>",
    '"><img src=x onerror="document.title = \'owned\'">',
    "' autofocus onfocus='document.title = \"owned\"",
    "\u202egnp.exe\u2066",
    "x" * 5_000,
)
QUESTION = {"resource_type": "TOPIC", "operation": "READ", "resource_name": "orders"}
PAGES = {
    "overview": "/console/",
    "live": "/console/live",
    "allowed": f"/console/explain?{urlencode(QUESTION | {'principal': 'User:alice'})}",
    "denied": f"/console/explain?{urlencode(QUESTION | {'principal': 'User:eve', 'as_of': '2'})}",
    "refused": f"/console/explain?{urlencode(QUESTION | {'principal': 'X:a'})}",
    "who": f"/console/who?{urlencode(QUESTION)}",
    "what": "/console/what?principal=User%3Aalice&resource_type=TOPIC&operation=READ",
    "ACLs": "/console/acls",
    "history": f"/console/history?{urlencode(QUESTION | {'principal': 'User:a', 'as_of': '0'})}",
    "verify": "/console/verify",
    "changes": "/console/changes?since=0",
    "what if": "/console/plan",
    "matrix": "/console/matrix",
    "reach": "/console/reach?principal=User%3Aalice",
    "risks": "/console/risks",
    "missing": "/console/other",
}
SERIOUS = {"serious", "critical"}


def acls() -> Iterator[Acl]:
    for number in range(15):
        yield acl("User:alice", "READ", topic=f"orders-{number}")
    yield acl("User:alice", "READ", topic="orders")
    yield acl("User:*", "ALL", topic="orders-", pattern="PREFIXED", deny=True, host="10.0.0.1")
    for name in HOSTILE:
        yield acl(f"User:{name}", "READ", topic="orders")
        yield acl("User:alice", "READ", topic=name)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder: Path = tmp_path_factory.mktemp("console")
    write_folder(folder, acls())
    (folder / "audit.log").write_text("")
    settings = {
        "authorizerd.console": "true",
        "authorizerd.tokens.file": str(folder / "tokens"),
        "authorizerd.audit.log": str(folder / "audit.log"),
        STATE_KEY: str(write_findings(folder / "state", HOSTILE[0])),
    }
    with running(folder, folder / "log", settings, super_users=f"User:{ROOT}") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


class Visitor:
    """A browser's window, and what went wrong in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: self.faults.append(dialog.message))

    def _note(self, kind: str, text: str) -> None:
        # The browser reports each status of 400 and above as an error as well.
        if kind in ("error", "warning") and "responded with a status" not in text:
            self.faults.append(text)


def visit(browser: Browser, daemon: DaemonProcess, **options: Any) -> Visitor:  # noqa: ANN401 - see new_context
    context = browser.new_context(base_url=f"http://{daemon.ready['admin_http']}", **options)
    context.set_default_timeout(30_000)
    return Visitor(context.new_page())


def serious_violations(page: Page) -> list[tuple[str, str]]:
    """Return the rules of WCAG that a page breaks, with the elements."""
    return [
        (each["id"], node["html"])
        for each in axe.Axe().run(page).response["violations"]
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


def log_in(visitor: Visitor) -> None:
    page = visitor.page
    page.goto("/console/")
    page.get_by_label("Token").fill(token_of(ROOT))
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Log out").wait_for()


@pytest.fixture
def visitor(browser: Browser, daemon: DaemonProcess) -> Iterator[Visitor]:
    """Provide a visitor who has logged in, and must not find a fault."""
    visitor = visit(browser, daemon)
    log_in(visitor)
    yield visitor
    visitor.page.context.close()
    assert visitor.faults == []


def test_pages_fit_a_narrow_window(visitor: Visitor) -> None:
    page, wide = visitor.page, []
    page.set_viewport_size({"width": 390, "height": 844})
    for name, path in PAGES.items():
        page.goto(path)
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            wide.append(name)
    assert wide == []


@pytest.mark.parametrize("scheme", ["light", "dark"][: size(1, 2)])
def test_axe_finds_nothing_serious(scheme: str, browser: Browser, daemon: DaemonProcess) -> None:
    visitor = visit(browser, daemon, color_scheme=scheme)
    page, found = visitor.page, {}
    page.goto("/console/")
    for name, path in {"log-in": "/console/", **PAGES}.items():
        if name == "overview":
            log_in(visitor)
        page.goto(path)
        found[name] = serious_violations(page)
    page.context.close()
    assert {name: each for name, each in found.items() if each} == {}
    assert visitor.faults == []


def test_hostile_names_run_nothing(visitor: Visitor) -> None:
    page = visitor.page
    for name in ("ACLs", "who", "what", "allowed", "verify", "changes"):
        path = PAGES[name]
        page.goto(path)
        assert "owned" not in page.title()
        assert page.locator("script:not([src^='/console/static/'])").count() == 0
        assert page.locator("main img").count() == 0
    page.goto(PAGES["ACLs"])
    for name in HOSTILE[:3]:
        assert page.get_by_role("row").get_by_text(f"User:{name}", exact=True).count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_page_runs_no_inline_code(visitor: Visitor) -> None:
    """The policy holds even if a page had markup of a visitor's."""
    page = visitor.page
    page.goto("/console/")
    page.evaluate(
        "document.querySelector('main').innerHTML ="
        " '<img src=/console/static/icon.svg onload=\"document.title = 1\">'"
    )
    page.wait_for_timeout(200)
    assert page.title() == "Overview · authorizerd"
    assert [each for each in visitor.faults if "Content Security Policy" in each]
    visitor.faults.clear()


def test_question_can_be_asked_with_the_keyboard_alone(visitor: Visitor) -> None:
    page, keyboard = visitor.page, visitor.page.keyboard
    page.goto("/console/explain")
    keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "principal"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    keyboard.type("User:alice")
    for _ in range(3):
        keyboard.press("Tab")
    keyboard.type("orders")
    keyboard.press("Enter")
    page.get_by_role("heading", name="Allowed").wait_for()


def test_live_page_is_refreshed_until_it_is_paused(visitor: Visitor) -> None:
    page = visitor.page
    page.goto("/console/live")
    page.evaluate("document.getElementById('decisions').dataset.old = 'yes'")
    page.evaluate("document.querySelector('details').open = true")
    page.locator("#decisions:not([data-old])").wait_for()
    assert page.locator("details[open]").count() == 1
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("Paused").wait_for()
    page.get_by_role("button", name="Continue").click()
    page.get_by_text("Refreshed every").wait_for()
    assert page.get_by_role("row").filter(has_text="AuthZEN").count() == 1


def test_candidates_are_taken_from_a_file(visitor: Visitor, tmp_path: Path) -> None:
    """The script puts them into the form, where the visitor may change them."""
    file, page = tmp_path / "acls.txt", visitor.page
    file.write_text(write([acl("User:new", "READ", topic="orders")]).text)
    page.goto("/console/plan")
    page.get_by_label("Or take them from a file").set_input_files(file)
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("To add: 1. To remove: 0.").wait_for()
    assert "User:new" in page.get_by_label("Candidate ACLs").input_value()
    assert serious_violations(page) == []


def test_console_works_without_script(browser: Browser, daemon: DaemonProcess) -> None:
    visitor = visit(browser, daemon, java_script_enabled=False)
    log_in(visitor)
    page = visitor.page
    page.goto("/console/live")
    assert page.get_by_role("button", name="Pause").count() == 0
    page.get_by_role("link", name="Reload").click()
    page.get_by_role("heading", name="Decisions per second").wait_for()
    page.goto(PAGES["ACLs"])
    page.get_by_role("columnheader", name="Operation").get_by_role("link").click()
    page.wait_for_url("**sort=operation**")
    page.get_by_label("Search").fill("orders-1")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("ACLs: 6.").wait_for()
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("button", name="Log in").wait_for()
    page.goto(PAGES["ACLs"])
    assert page.get_by_label("Token").count() == 1
    page.context.close()
    assert visitor.faults == []


def test_page_is_printed_without_forms_and_links(visitor: Visitor) -> None:
    page = visitor.page
    page.goto(PAGES["allowed"])
    page.emulate_media(media="print")
    assert not page.locator("form.question").is_visible()
    assert not page.locator("header nav").is_visible()
    assert page.get_by_role("heading", name="Allowed").is_visible()


def test_session_cookie_is_out_of_reach_of_scripts(visitor: Visitor) -> None:
    (cookie,) = visitor.page.context.cookies()
    assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
    assert visitor.page.evaluate("document.cookie") == ""
