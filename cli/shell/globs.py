r"""Paths of the metadata shell, with the wildcards ``*``, ``?`` and ``{a,b}``.

A backslash before a character takes its meaning away, but only in a name with a wildcard: a name
without one is looked up as it is. A brace that has no partner makes the whole name literal.

Source: Kafka 4.3 GlobComponent, GlobVisitor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from authorizerd.cli.shell.tree import Folder, Node

_ANY_CHARACTER = "[^\n\r\u0085\u2028\u2029]"
"""The characters that a dot matches in Java."""


class Match(NamedTuple):
    """A node that a path leads to, and the names on the way to it."""

    names: tuple[str, ...]
    node: Node

    @property
    def last_name(self) -> str:
        return self.names[-1] if self.names else "/"


def resolve(working_directory: str, path: str) -> list[str]:
    """Return the names of a path from the root, without ``.`` and ``..``."""
    full = path if path.startswith("/") else f"{working_directory}/{path}"
    names: list[str] = []
    for name in full.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return names


def find_matches(root: Node, names: list[str]) -> Iterator[Match]:
    """Yield each node that the names lead to, in the order of the tree."""
    yield from _search(Match((), root), [compile_glob(name) or name for name in names])


def _search(reached: Match, rest: list[str | re.Pattern[str]]) -> Iterator[Match]:
    if not rest:
        yield reached
        return
    node = reached.node
    if not isinstance(node, Folder):
        return
    for name in _select(node, rest[0]):
        child = node.find(name)
        if child is not None:
            yield from _search(Match((*reached.names, name), child), rest[1:])


def _select(folder: Folder, wanted: str | re.Pattern[str]) -> Iterator[str]:
    if isinstance(wanted, str):
        yield wanted  # the folder may be large: do not list it
    else:
        yield from filter(wanted.fullmatch, folder.names())


def compile_glob(glob: str) -> re.Pattern[str] | None:
    """Return a pattern for a name with wildcards, or None if it stands for itself."""
    translated: list[str] = []
    is_group = is_wild = False
    characters = iter(glob)
    for each in characters:
        if each == "\\":
            translated.append(re.escape(next(characters, "\\")))
        elif each in "?*":
            is_wild = True
            translated.append(_ANY_CHARACTER if each == "?" else f"{_ANY_CHARACTER}*")
        elif each == "{":
            if is_group:
                return None
            is_group = is_wild = True
            translated.append("(?:")
        elif is_group and each in ",}":
            is_group = each == ","
            translated.append("|" if is_group else ")")
        else:
            translated.append(re.escape(each))
    if is_group or not is_wild:
        return None
    return re.compile("".join(translated))
