"""``authorizerd docs``: list the pages of the documentation, print one, or search them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from authorizerd.acl.text.typos import find_similar
from authorizerd.cli.docs.pages import (
    Section,
    make_anchor,
    page_paths,
    read_page,
    split_sections,
    with_inner,
)
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import align, print_lines

RESULTS_MAX: Final = 20
"""Sections that a search shows."""


def add_docs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run, refuse=parser.error)
    text = "the page to print, such as backup, or a link of a page, such as backup.md#restore"
    parser.add_argument("page", nargs="?", metavar="PAGE", help=f"{text} (default: list all)")
    text = "print only the section with this name in links, or the sections with it in their names"
    parser.add_argument("--section", metavar="HEADING", help=text)
    text = "list the sections that have all these words, of all pages or of the one named"
    parser.add_argument("--search", nargs="+", metavar="WORD", help=text)


def _run(arguments: argparse.Namespace) -> int:
    page: str | None = arguments.page
    section: str | None = arguments.section
    words: list[str] | None = arguments.search
    if section is not None and (page is None or words):
        arguments.refuse("--section: expected it with one page, and without --search")
    name, _, anchor = (page or "").partition("#")
    paths = page_paths()
    if page is not None:
        name = _find_page(name, paths)
        paths = {name: paths[name]}
    if words:
        _print_found(words, paths)
    elif page is None:
        _print_list(paths)
    else:
        sections = split_sections(read_page(paths[name]))
        wanted = section or anchor
        text = _choose(name, wanted, sections) if wanted else "".join(e.text for e in sections)
        _print_text(text)
    return 0


def _find_page(name: str, paths: dict[str, str]) -> str:
    """Return the name of a page that is given as a name or a path."""
    given = name.removeprefix("docs/").removesuffix(".md").lower()
    if given in paths:
        return given
    meant = find_similar(given, paths)
    hint = f" (did you mean {meant}?)" if meant else ""
    help_text = "`authorizerd docs` lists all pages, and --search finds words in them"
    raise CommandError(f"no page '{name}'{hint}: {help_text}")


def _choose(name: str, wanted: str, sections: list[Section]) -> str:
    """Return the section with this anchor, or else all whose anchors contain it."""
    anchor = make_anchor(wanted)
    chosen = [each for each in sections if each.anchor == anchor]
    chosen = chosen or [each for each in sections[1:] if anchor in each.anchor]
    if not chosen:
        anchors = ", ".join(each.anchor for each in sections[1:]) or "none: it has no sections"
        raise CommandError(f"{name}: no section '{wanted}': expected one of {anchors}")
    return "".join(with_inner(sections, chosen))


def _print_list(paths: dict[str, str]) -> None:
    titles = [(name, split_sections(read_page(path))[0].heading) for name, path in paths.items()]
    print_lines(["Print a page with `authorizerd docs PAGE`:", *align(titles)])


class _Found(NamedTuple):
    """A section with all words. The one with most of them in its heading sorts first."""

    misses_in_heading: int
    minus_occurrences: int
    link: str
    line: str


def _print_found(words: list[str], paths: dict[str, str]) -> None:
    wanted = [word.casefold() for word in words]
    found = sorted(each for name, path in paths.items() for each in _search(wanted, name, path))
    if not found:
        where = f"in the page {next(iter(paths))}" if len(paths) == 1 else "in any page"
        raise CommandError(f"--search: no section {where} has all of: {' '.join(words)}")
    lines = align([(each.link, each.line) for each in found[:RESULTS_MAX]])
    if len(found) > RESULTS_MAX:
        lines.append(f"  and {len(found) - RESULTS_MAX} more: add a word")
    print_lines(["Print a section with `authorizerd docs LINK`:", *lines])


def _search(words: list[str], name: str, path: str) -> Iterator[_Found]:
    for section in split_sections(read_page(path)):
        text = section.text.casefold()
        counts = [text.count(word) for word in words]
        if all(counts):
            heading = section.heading.casefold()
            misses = sum(word not in heading for word in words)
            lines = section.text.splitlines()
            line = max(lines, key=lambda line: sum(word in line.casefold() for word in words))
            yield _Found(misses, -sum(counts), f"{name}.md#{section.anchor}", line.lstrip("# "))


def _print_text(text: str) -> None:
    """Print with the user's pager, if a person reads at a terminal."""
    out = sys.stdout
    encoding = out.encoding or "utf-8"
    text = text.encode(encoding, "replace").decode(encoding)
    if out.isatty():
        from pydoc import pager  # slow

        pager(text)
    else:
        out.write(text)
