"""Map the project's files to paths in the site.

A link such as ``../ops/systemd/README.md`` works in a clone. The site has the same file at
``ops/systemd/README.md``: every file keeps its path from the top of the project, but ``docs/`` is
the top of the site, and ``README.md`` is the home page.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from authorizerd.cli.docs.pages import CITATION, LINK, page_paths, resolve_link

ROOT: Final = Path(__file__).parents[2]
HOME: Final = "README.md"


def link_pages(text: str, site: str = "") -> str:
    """Return the text with each citation of a page replaced by its title and a link.

    Args:
        site: the site's address, for a text that is read elsewhere than in ``docs/``.
    """
    paths = page_paths()

    def link(found: re.Match[str]) -> str:
        path = paths[found[1]]
        with (ROOT / path).open(encoding="utf-8") as page:
            title = page.readline().removeprefix("# ").rstrip()
        anchor = f"#{found[2]}" if found[2] else ""
        place = f"{site}{found[1]}/" if site else posixpath.relpath(path, "docs")
        return f"[{title}]({place}{anchor})"

    return CITATION.sub(link, text)


def to_site(path: str) -> str:
    """Return a file's path in the site."""
    return "index.md" if path == HOME else path.removeprefix("docs/")


def to_project(place: str) -> str:
    """Return a file's path from the top of the project."""
    if place == "index.md":
        return HOME
    return place if (ROOT / place).exists() else f"docs/{place}"


def linked_files(pages: Iterable[str]) -> set[str]:
    """Return the paths of these pages, and of all files that links lead to from there."""
    waiting = [*pages]
    found: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _links_of(path) if path.endswith(".md") else ()
    return found


def _links_of(page: str) -> Iterator[str]:
    for link in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        target = resolve_link(page, link)
        if (ROOT / target).is_file():
            yield target


def rewrite_links(text: str, page: str) -> str:
    """Return the text of a page, with links adjusted to the files' paths in the site.

    Links to anything other than a file of the project are left unchanged.
    """
    folder = posixpath.dirname(to_site(page)) or "."

    def place(link: re.Match[str]) -> str:
        target = resolve_link(page, link[0])
        if not (ROOT / target).is_file():
            return link[0]
        return posixpath.relpath(to_site(target), folder)

    return LINK.sub(place, text)
