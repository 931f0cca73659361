"""The links between the documents, and the indents of their lists."""

import re
from pathlib import Path

import pytest

from tests.end_to_end.documents import ROOT

DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("clients/*/*.md"),
    *ROOT.glob("ops/*/README.md"),
]
CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
NESTED = re.compile(r"^ {1,3}(?:[-*]|\d+\.) .*$", re.MULTILINE)
INDENTED_CODE = re.compile(r"^ {1,3}```.*$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def anchors_of(path: Path) -> set[str]:
    """Return the names by which links reach the headings, as GitHub makes them."""
    headings = HEADING.findall(CODE.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(document: Path) -> None:
    links = LINK.findall(CODE.sub("", document.read_text(encoding="utf-8")))
    for file, anchor in links:
        target = (document.parent / file).resolve() if file else document
        assert target.exists(), file
        assert not anchor or anchor in anchors_of(target), f"{file}#{anchor}"


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/*.md")), ids=lambda path: path.name)
def test_page_that_a_page_names_is_linked(page: Path) -> None:
    """In code and in the table of mutants, a page is a file that a test reads."""
    text = re.sub(r"`[^`]*`", "", CODE.sub("", page.read_text(encoding="utf-8")))
    assert re.findall(r"docs/[a-z-]+\.md", text) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_page_that_a_text_names_exists(document: Path) -> None:
    """In code, a changelog may name pages that were renamed."""
    text = re.sub(r"`[^`]*`", "", CODE.sub("", document.read_text(encoding="utf-8")))
    named = set(re.findall(r"\bdocs/[a-z-]+\.md", text))
    assert {page for page in named if not (ROOT / page).exists()} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_list_contains_is_indented_by_four_spaces(document: Path) -> None:
    """MkDocs reads an item or a block with fewer spaces as if it were not in the list."""
    text = document.read_text(encoding="utf-8")
    assert INDENTED_CODE.findall(text) + NESTED.findall(CODE.sub("", text)) == []
