"""Complete the word before the cursor: a command, or a path.

Source: Kafka 4.3 CommandUtils.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import Final

from authorizerd.cli.shell.commands import Shell
from authorizerd.cli.shell.globs import resolve
from authorizerd.cli.shell.tree import Folder, utf16_key

CANDIDATES_MAX: Final = 1000
"""Nobody reads more, and a folder may have 500,000 names."""
_OF_SHELL: Final = frozenset("'\"\\ ")
_WITH_PATHS: Final = frozenset(("cat", "cd", "find", "ls", "tree"))


def complete(shell: Shell, words: Sequence[str], prefix: str) -> list[str]:
    """Return what the word that begins with ``prefix`` may be.

    Args:
        words: those before it.
    """
    if not words:
        return [f"{name} " for name in shell.commands if name.startswith(prefix)]
    if words[0] == "man":
        return [name for name in shell.commands if name.startswith(prefix)]
    if words[0] not in _WITH_PATHS:
        return []
    return list(islice(_complete_path(shell, prefix), CANDIDATES_MAX))


def _complete_path(shell: Shell, prefix: str) -> Iterator[str]:
    before, slash, last = prefix.rpartition("/")
    folder = _find_folder(shell.root, resolve(shell.working_directory, before + slash or "."))
    if folder is None:
        return
    names = folder.names()
    # Do not look at each of 500,000 names.
    first = bisect_left(names, utf16_key(last), key=utf16_key)
    for name in takewhile(lambda each: each.startswith(last), names[first:]):
        # readline prints candidates as they are, and blanks end a word.
        if name.isprintable() and not _OF_SHELL & set(name):
            is_folder = isinstance(folder.find(name), Folder)
            yield f"{before}{slash}{name}{'/' if is_folder else ' '}"


def _find_folder(root: Folder, names: list[str]) -> Folder | None:
    folder = root
    for name in names:
        child = folder.find(name)
        if not isinstance(child, Folder):
            return None
        folder = child
    return folder
