r"""The tree of the metadata shell: folders, files, and paths with ``*``, ``?`` and ``{a,b}``.

A folder finds its children when asked. In a name with a wildcard, a backslash makes the next
character literal; a name without a wildcard is looked up unchanged. An unmatched brace makes the
whole name literal.

**Invariant:** no child is created before it is requested, so a folder of 500,000 ACLs costs nothing
until it is listed.

Source: Kafka 4.3 GlobComponent, GlobVisitor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias


class File(NamedTuple):
    """A file, as lines of text."""

    lines: tuple[str, ...]


class Folder:
    """A folder.

    Args:
        names: returns the names of the children, in any order. Called at most once. find: returns
            the child of a name, or None. It may know more names than ``names`` returns.
        has_only_files: True if no child is a folder, so that a search need not create the children.
    """

    def __init__(
        self,
        names: Callable[[], Iterable[str]],
        find: Callable[[str], Node | None],
        *,
        has_only_files: bool = False,
    ) -> None:
        self._names: Final = names
        self.find: Final = find
        self.has_only_files: Final = has_only_files
        self._sorted: list[str] | None = None

    def names(self) -> list[str]:
        """Return the children's names, sorted as Java sorts strings."""
        if self._sorted is None:
            self._sorted = sort_names(self._names())
        return self._sorted


Node: TypeAlias = Folder | File


def file_of(text: str) -> File:
    return File((text,))


def folder_of(children: Mapping[str, Callable[[], Node | None]]) -> Folder:
    """Return a folder with these children, each created once, on first use.

    A child whose function returns None is left out.
    """
    created: dict[str, Node | None] = {}

    def find(name: str) -> Node | None:
        if name not in created and name in children:
            created[name] = children[name]()
        return created.get(name)

    return Folder(lambda: [name for name in children if find(name) is not None], find)


def table_of(texts: Mapping[str, str]) -> Folder:
    def find(name: str) -> File | None:
        text = texts.get(name)
        return None if text is None else file_of(text)

    return Folder(lambda: texts, find, has_only_files=True)


def sort_names(names: Iterable[str]) -> list[str]:
    """Return the names in the order of Java's ``String.compareTo``: by UTF-16 code units."""
    listed = list(names)
    if all(map(str.isascii, listed)):
        listed.sort()
    else:
        listed.sort(key=utf16_key)
    return listed


def utf16_key(name: str) -> bytes:
    """Return a key that sorts as Java sorts strings."""
    return name.encode("utf-16-be", "surrogatepass")


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
    """Return a pattern for a name with wildcards, or None if the name is literal."""
    translated: list[str] = []
    is_group = is_wild = False
    characters = iter(glob)
    for character in characters:
        if character == "\\":
            translated.append(re.escape(next(characters, "\\")))
        elif character in "?*":
            is_wild = True
            translated.append(_ANY_CHARACTER if character == "?" else f"{_ANY_CHARACTER}*")
        elif character == "{":
            if is_group:
                return None
            is_group = is_wild = True
            translated.append("(?:")
        elif is_group and character in ",}":
            is_group = character == ","
            translated.append("|" if is_group else ")")
        else:
            translated.append(re.escape(character))
    if is_group or not is_wild:
        return None
    return re.compile("".join(translated))
