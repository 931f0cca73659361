"""``authorizerd docs``, and that the pages which texts of the product cite exist."""

import ast
import io
import pydoc
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorizerd.cli.docs.command import RESULTS_MAX
from authorizerd.cli.docs.pages import (
    CITATION,
    page_paths,
    read_page,
    resolve_link,
    split_sections,
    with_inner,
)
from authorizerd.cli.main import main
from tests.support.fixture_types import MonkeyPatch
from tests.support.printed import run_main

TOP = Path(__file__).parents[3]
FOLDERS = (
    "acl", "actors", "cli", "clients/java/src", "clients/javascript", "clients/python/src",
    "config", "daemon", "image", "kafka_client", "management", "metadata", "ops", "protocol", "tls",
)  # fmt: skip
SUFFIXES = (".d.ts", ".html", ".java", ".json", ".properties", ".py", ".service", ".yaml")
PATH = re.compile(r"\b(?:docs|ops)/[a-z/-]+\.md\b")


def product_files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in (TOP / folder).rglob("*"):
            if path.name.endswith(SUFFIXES) and "node_modules" not in path.parts:
                yield path


def shown_texts(path: Path) -> Iterator[str]:
    """Yield what users read of a file that may cite a page: of a module, all but docstrings.

    Docstrings of configuration keys are the text of the reference.
    """
    text = path.read_text()
    if path.suffix != ".py":
        yield text
    elif PATH.search(text):
        nodes = [*ast.walk(ast.parse(text))]
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        strings = (node for node in nodes if isinstance(node, ast.Constant))
        yield from (str(node.value) for node in strings if id(node) not in docstrings)
        yield from re.findall(r'= (?:Key|setting)\(.*\n +"""([^"]+)"""', text)


def test_cited_pages_and_sections_exist() -> None:
    """Also in docstrings: those of configuration keys and metrics are shown to users."""
    cited = {
        (name, section)
        for path in product_files()
        for name, section in CITATION.findall(" ".join(path.read_text().split()))
    }
    for name, anchor in cited:
        sections = split_sections(read_page(page_paths()[name]))
        assert anchor in {"", *(each.anchor for each in sections)}, name
    assert len(cited) > 15


def test_paths_of_pages_are_in_sources_only() -> None:
    """An installed wheel has no ``docs/backup.md``, but `authorizerd docs backup`."""
    shown = {
        (path.relative_to(TOP).as_posix(), found)
        for path in product_files()
        for text in shown_texts(path)
        for found in PATH.findall(text)
    }
    assert shown == set()


def test_paths_in_sources_exist() -> None:
    named = {found for path in product_files() for found in PATH.findall(path.read_text())}
    assert {path for path in named if not (TOP / path).is_file()} == set()


def test_every_page_and_its_neighbours_are_listed() -> None:
    lines = run_main("docs").out.splitlines()[1:]
    listed = {line.split()[0] for line in lines}
    assert listed >= {path.stem for path in (TOP / "docs").glob("*.md")}
    assert listed >= {"readme", "changelog", "security", "ops-systemd", "clients-python"}
    assert "  backup               Backup and restore" in lines


def test_links_lead_to_pages_of_the_command() -> None:
    """A link that leaves the pages says that it leads to the source."""
    texts = {name: read_page(path) for name, path in page_paths().items()}
    anchors = {name: {each.anchor for each in split_sections(texts[name])} for name in texts}
    for name, text in texts.items():
        for link, anchor in re.findall(r"\]\((?![a-z]+:)([^)#\s]+)\.md(#[\w-]+)?\)", text):
            assert anchor[1:] in {"", *anchors[link]}, name
        assert re.findall(r"\]\(\.\./[^),]*\)", text) == [], name


def test_link_out_of_the_pages_names_the_source() -> None:
    page = run_main("docs", "authorizers").out
    assert "](tools/example/quarantine.py, in the source)" in page
    assert resolve_link("ops/systemd/README.md", "../../docs/tls.md") == "docs/tls.md"


def test_whole_page_is_printed_without_comments() -> None:
    page = run_main("docs", "backup").out
    source = (TOP / "docs/backup.md").read_text()
    kept = [line for line in source.splitlines() if "](" not in line and "<!--" not in line]
    assert set(kept) <= set(page.splitlines())
    assert "<!--" in (TOP / "docs/container.md").read_text()
    assert "<!--" not in run_main("docs", "container").out


class Terminal(io.StringIO):
    encoding = "iso-8859-1"

    def isatty(self) -> bool:
        return True


def test_person_gets_a_pager(monkeypatch: MonkeyPatch) -> None:
    """A terminal that lacks a character shows a question mark."""
    paged: list[str] = []
    monkeypatch.setattr(pydoc, "pager", paged.append)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["docs", "backup"]) == 0
    assert paged == [run_main("docs", "backup").out.replace("…", "?")]
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("words", [
    ["backup", "--section", "restore-a-cluster"],
    ["backup", "--section", "Restore a cluster"],
    ["backup.md#restore-a-cluster"],
    ["docs/backup.md", "--section", "e a cl"],
])  # fmt: skip
def test_section_is_named_in_several_ways(words: list[str]) -> None:
    printed = run_main("docs", *words).out
    assert printed.startswith("## Restore a cluster\n")
    assert printed.count("\n## ") == 0


def test_all_sections_with_a_word_are_printed() -> None:
    printed = run_main("docs", "backup", "--section", "restore").out
    headings = re.findall("^## (.*)", printed, re.MULTILINE)
    assert headings == ["Restore the daemon's own log", "Restore a cluster"]


def test_section_has_those_below_it() -> None:
    text = "# A\na\n## B\nb\n```\n# no heading\n```\n### C\nc\n## D `x`\nd\n### C\ne\n"
    sections = split_sections(text)
    assert [each.anchor for each in sections] == ["a", "b", "c", "d-x", "c_1"]
    expected = text[text.index("## B") : text.index("## D")]
    assert "".join(with_inner(sections, sections[1:2])) == expected
    assert "".join(with_inner(sections, sections)) == text


def test_search_shows_sections_that_can_be_printed() -> None:
    first, best, *_ = run_main("docs", "--search", "Restore", "cluster").out.splitlines()
    assert first == "Print a section with `authorizerd docs LINK`:"
    link = best.split()[0]
    assert link == "backup.md#restore-a-cluster"
    assert run_main("docs", link).out.startswith("## Restore a cluster\n")


def test_search_is_bounded_and_may_be_in_one_page() -> None:
    lines = run_main("docs", "--search", "the").out.splitlines()
    assert len(lines) == 1 + RESULTS_MAX + 1
    assert re.fullmatch(r"  and \d{3,} more: add a word", lines[-1])
    lines = run_main("docs", "backup", "--search", "the").out.splitlines()
    assert all(line.startswith("  backup.md#") for line in lines[1:])


@pytest.mark.parametrize(("words", "code", "expected"), [
    (["bakcup"], 1, "no page 'bakcup' (did you mean backup?): `authorizerd docs` lists all pages"),
    (["../pyproject.toml"], 1, "no page '../pyproject.toml': `authorizerd docs` lists all pages"),
    (["zqzq"], 1, "`authorizerd docs` lists all pages, and --search finds words in them"),
    (["backup", "--section", "x-y"], 1, "backup: no section 'x-y': expected one of back-up-the-"),
    (["--search", "zqzq"], 1, "--search: no section in any page has all of: zqzq"),
    (["backup", "--search", "zq"], 1, "--search: no section in the page backup has all of: zq"),
    (["--section", "x"], 2, "--section: expected it with one page, and without --search"),
    (["a", "--section", "x", "--search", "y"], 2, "--section: expected it with one page"),
])  # fmt: skip
def test_mistake_is_named(words: list[str], code: int, expected: str) -> None:
    assert expected in run_main("docs", *words, code=code).err
