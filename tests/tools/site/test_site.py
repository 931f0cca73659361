"""The documentation site: its pages, its links, and that it loads nothing from other hosts."""

import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tests.support.programs import run_program
from tools.manual.command_tree import command_tree, each_command
from tools.site.commands import commands_page, escape
from tools.site.outside import outside_requests
from tools.site.places import ROOT, linked_files, rewrite_links, to_project, to_site

PAGES = ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


Navigation = str | list["Navigation"] | dict[str, "Navigation"]


def places_in(navigation: Navigation) -> Iterator[str]:
    """Yield the pages of a navigation: lists, of pages and of one-item maps from a title."""
    if isinstance(navigation, str):
        yield navigation
        return
    for each in navigation.values() if isinstance(navigation, dict) else navigation:
        yield from places_in(each)


def test_navigation_has_every_page_once() -> None:
    """A page outside docs/ is one if a page links to it."""
    _, _, navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    pages = {to_site(path) for path in linked_files(PAGES) if path.endswith(".md")}
    assert sorted(places_in(yaml.safe_load(navigation))) == sorted({*pages, "commands.md"})


@pytest.mark.parametrize(("page", "link", "expected"), [
    ("README.md", "docs/tls.md", "tls.md"),
    ("README.md", "docs/tls.md#rotation", "tls.md#rotation"),
    ("docs/tls.md", "../README.md#run", "index.md#run"),
    ("docs/tls.md", "limits.md", "limits.md"),
    ("docs/tls.md", "../ops/systemd/README.md", "ops/systemd/README.md"),
    ("ops/systemd/README.md", "../../docs/tls.md", "../../tls.md"),
    ("ops/systemd/README.md", "../../README.md", "../../index.md"),
    ("docs/tls.md", "https://kafka.apache.org/a.md", "https://kafka.apache.org/a.md"),
    ("docs/tls.md", "#rotation", "#rotation"),
    ("docs/tls.md", "missing.md", "missing.md"),
])  # fmt: skip
def test_link_leads_to_the_same_file_in_the_site(page: str, link: str, expected: str) -> None:
    assert rewrite_links(f"[a]({link}) b", page) == f"[a]({expected}) b"


def test_link_says_what_is_there() -> None:
    """The name of a file says less than a title."""
    pages = sorted(path for path in linked_files(PAGES) if path.endswith(".md"))
    names = {path: re.findall(r"\[[\w./-]+\.md\]\(", (ROOT / path).read_text()) for path in pages}
    assert {path: found for path, found in names.items() if found} == {}


@pytest.mark.parametrize("path", ["README.md", "docs/tls.md", "ops/systemd/README.md"])
def test_place_in_the_site_names_one_file(path: str) -> None:
    assert to_project(to_site(path)) == path


@pytest.mark.parametrize(("html", "expected"), [
    ('<script src="https://cdn.example/a.js"></script>', ["https://cdn.example/a.js"]),
    ("<img alt=a src=//cdn.example/a.png>", ["//cdn.example/a.png"]),
    ('<link rel="stylesheet" href="http://a.example/b.css">', ["http://a.example/b.css"]),
    ('<link href=https://a.example/b.css rel=stylesheet>', ["https://a.example/b.css"]),
    ('<link rel="canonical" href="https://docs.example/tls/"><link rel="next" href="//b">', []),
    ('<a href="https://kafka.apache.org/">Kafka</a>', []),
    ('<script src="../assets/a.js"></script><img src="growth.svg">', []),
])  # fmt: skip
def test_outside_request_is_found(html: str, expected: list[str]) -> None:
    assert outside_requests(html) == expected


def test_page_of_commands_has_every_command_and_option() -> None:
    page = commands_page()
    for words, arguments in each_command(command_tree()):
        assert f"\n## `{words}`\n" in page
        section = page.partition(f"\n## `{words}`\n")[2].partition("\n## ")[0]
        for name in (name for each in arguments for name in each.option_strings):
            assert f"`{name}" in section, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [("User:'*' and <x>", r"User:'\*' and \<x>"), ("run `a *`, or *", r"run `a *`, or \*")],
)
def test_syntax_in_a_help_text_is_escaped_outside_code(text: str, expected: str) -> None:
    assert escape(text) == expected


def test_site_builds_without_warnings(tmp_path: Path) -> None:
    """The build checks each link, anchor and outside request; a warning ends it with an error."""
    if find_spec("material") is None:
        pytest.skip("no MkDocs Material: `make docs` installs it")
    done = run_program(sys.executable, "-m", "mkdocs", "build", "--site-dir", tmp_path, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "Documentation built" in done.stderr  # with --quiet, it would count no warnings
    assert "Apache Kafka's ACL authorizer" in (tmp_path / "index.html").read_text()
    assert (tmp_path / "search/search_index.json").exists()
