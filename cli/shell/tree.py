"""The tree of the metadata shell: folders and files. A folder finds its children when asked.

**Invariant:** no child is created before somebody asks for it, so a folder of 500,000 ACLs costs
nothing until it is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias


class File(NamedTuple):
    """A file, as lines of text."""

    lines: tuple[str, ...]


class Folder:
    """A folder.

    Args:
        names: return the names of the children, in any order. Called at most once.
        find: return the child of a name, or None. It may know more names than ``names`` returns.
        has_only_files: True if no child is a folder, so that a search need not create any.
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
    """Return a file of one line."""
    return File((text,))


def folder_of(children: Mapping[str, Callable[[], Node | None]]) -> Folder:
    """Return a folder with these children, each created once, when it is asked for.

    A child whose function returns None is left out.
    """
    created: dict[str, Node | None] = {}

    def find(name: str) -> Node | None:
        if name not in created and name in children:
            created[name] = children[name]()
        return created.get(name)

    return Folder(lambda: [name for name in children if find(name) is not None], find)


def table_of(texts: Mapping[str, str]) -> Folder:
    """Return a folder with a file of one line for each name."""

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
