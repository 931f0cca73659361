"""The pages of the documentation, which are installed next to the code.

The folder ``pages`` has the files at their paths from the top of the project. In a clone, it has
links to them. A page's name is its path in lower case, with ``-`` for ``/``, and without what most
pages share: ``docs/``, ``README`` and ``.md``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import authorizerd

ROOT: Final = Path(authorizerd.__file__).parent / "pages"
DEEPEST: Final = 7
"""A level below that of every heading."""
LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)[^)#\s]+")
"""The path in a link from one file to another."""
CITATION: Final = re.compile(r"`authorizerd docs ([a-z-]+)(?: --section ([a-z0-9-]+))?`")
"""How texts of the product cite a page, or a section of it."""
_COMMENT: Final = re.compile(r"^<!--.*?-->\n?", re.DOTALL | re.MULTILINE)
_FENCE: Final = re.compile(r" *```")
_HEADING: Final = re.compile(r"(#+) (.*)")
_LINK_TARGET: Final = re.compile(r"\]\([^)]*\)")


class Section(NamedTuple):
    """A heading and what follows it, up to the next heading.

    Attributes:
        level: 1 for the page's title.
        anchor: the name in links, as GitHub and the site make it.
        text: the lines, with the heading.
    """

    level: int
    heading: str
    anchor: str
    text: str


def page_paths() -> dict[str, str]:
    """Return the path of each page below ``ROOT``, by the page's name, in order of the names."""
    # pathlib follows no link to a folder in a pattern with `**`.
    found = [path for depth in range(4) for path in ROOT.glob(f"{'*/' * depth}*.md")]
    paths = [path.relative_to(ROOT).as_posix() for path in found]
    return dict(sorted((name_of(path), path) for path in paths))


def name_of(path: str) -> str:
    stem = path.removeprefix("docs/").removesuffix(".md")
    return stem.removesuffix("/README").replace("/", "-").lower()


def read_page(path: str) -> str:
    """Return a page for a terminal.

    A link to another page becomes its name with ``.md``. Comments, which no reader of the site
    sees, are left out.
    """
    text = (ROOT / path).read_text(encoding="utf-8")
    return LINK.sub(partial(_rename, path), _COMMENT.sub("", text))


def _rename(page: str, link: re.Match[str]) -> str:
    target = resolve_link(page, link[0])
    if target.endswith(".md") and (ROOT / target).is_file():
        return f"{name_of(target)}.md"
    return f"{target}, in the source"


def resolve_link(page: str, link: str) -> str:
    """Return the path from the top of the project to which a page's link leads."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def split_sections(text: str) -> list[Section]:
    """Return the sections of a page, in order. The text begins with its title."""
    starts: list[tuple[int, int, str]] = []
    position = 0
    is_code = False
    for line in text.splitlines(keepends=True):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and (found := _HEADING.match(line)):
            starts.append((position, len(found[1]), found[2]))
        position += len(line)
    ends = [start for start, _, _ in starts[1:]] + [position]
    anchors = _number([make_anchor(heading) for _, _, heading in starts])
    return [
        Section(level, heading, anchor, text[start:end])
        for (start, level, heading), anchor, end in zip(starts, anchors, ends, strict=True)
    ]


def make_anchor(heading: str) -> str:
    words = _LINK_TARGET.sub("", heading).lower()
    return re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")


def _number(anchors: list[str]) -> Iterator[str]:
    """Yield each anchor; a repeated one gets a number, as on the site."""
    seen: dict[str, int] = {}
    for anchor in anchors:
        count = seen[anchor] = seen.get(anchor, -1) + 1
        yield f"{anchor}_{count}" if count else anchor


def with_inner(sections: list[Section], chosen: Collection[Section]) -> Iterator[str]:
    """Yield the texts of the chosen sections and of all below their headings, each once."""
    level = DEEPEST
    for section in sections:
        if section.level <= level:
            level = section.level if section in chosen else DEEPEST
        if level < DEEPEST:
            yield section.text
