"""An interactive session: a prompt, commands, completion, and a history kept in a file.

Without Python's ``readline``, there is no completion and no history file.

**Invariant:** the history file has mode 0600 and at most ``HISTORY_LINES_MAX`` lines.

Source: Kafka 4.3 CommandUtils; JLine 3 DefaultParser, which Kafka's shell uses with its defaults.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final

from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import warn
from authorizerd.cli.program.ending import is_ended
from authorizerd.cli.shell.commands import Shell
from authorizerd.cli.shell.tree import Folder, resolve, utf16_key

PROMPT: Final = ">> "
HISTORY_LINES_MAX: Final = 1000
CANDIDATES_MAX: Final = 1000
"""The maximum number of completion candidates, since a folder may have 500,000 names."""
_OF_SHELL: Final = frozenset("'\"\\ ")
_WITH_PATHS: Final = frozenset(("cat", "cd", "find", "ls", "tree"))
_QUOTES = "'\""
_ESCAPE = "\\"
_HISTORY_BYTES_MAX: Final = 1024 * 1024
_DELIMITERS: Final = " \t"


def converse(shell: Shell, title: str, measure: Callable[[], int]) -> int:
    readline = _import_readline()
    path = find_history_file(os.environ)
    if readline is not None:
        _prepare(readline, shell, path)
    shell.print(f"[ {title}. Type help for the commands. ]")
    while not shell.has_ended:
        try:
            line = input(PROMPT)
            shell.width = measure()
            if shell.remember(line) and readline is not None:
                readline.add_history(line.strip())
            shell.run(split_line(line))
        except CommandError as error:  # opening a folder sends requests to brokers
            warn(str(error))
        except KeyboardInterrupt:
            if is_ended():
                raise
            shell.print("^C")
        except EOFError:
            shell.print("")
            break
    if readline is not None:
        write_history(path, shell.history)
    return 0


def _import_readline() -> Any:  # noqa: ANN401 - a module, or None
    try:
        import readline
    except ImportError:
        return None
    return readline


def _prepare(readline: Any, shell: Shell, path: Path) -> None:  # noqa: ANN401 - the module
    """Load the history, and set up completion with the tab key."""
    shell.history = read_history(path)
    readline.set_auto_history(False)
    for line in shell.history:
        readline.add_history(line)
    readline.set_completer_delims(_DELIMITERS)
    readline.set_completer(Completer(shell, readline))
    # libedit, which replaces readline on some systems, has another syntax.
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")


class Completer:
    """Answers readline's requests to complete the word before the cursor."""

    def __init__(self, shell: Shell, readline: Any) -> None:  # noqa: ANN401 - the module
        self._shell: Final = shell
        self._readline: Final = readline
        self._candidates: Sequence[str] = ()

    def __call__(self, text: str, number: int) -> str | None:
        if number == 0:
            begin = self._readline.get_begidx()
            before = self._readline.get_line_buffer()[:begin]
            self._candidates = complete(self._shell, before.split(), text)
        return self._candidates[number] if number < len(self._candidates) else None


def find_history_file(environment: os._Environ[str] | dict[str, str]) -> Path:
    """Return the path of the history, by the XDG base directories."""
    state = environment.get("XDG_STATE_HOME", "")
    # The specification says that a relative path is invalid.
    folder = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return folder / "authorizerd" / "shell_history"


def read_history(path: Path) -> list[str]:
    """Return the lines of earlier sessions, oldest first. Blocks on the file.

    Without a file there are none. If the file cannot be read, a warning says why.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_HISTORY_BYTES_MAX)
    except FileNotFoundError:
        return []
    except OSError as error:
        warn(f"cannot read the history: {path}: {error.strerror or error}")
        return []
    lines = data.decode(errors="replace").split("\n")
    return [line for line in lines if line and line.isprintable()][-HISTORY_LINES_MAX:]


def write_history(path: Path, lines: Sequence[str]) -> None:
    """Replace the file with the latest lines. Blocks; if it fails, a warning says why."""
    kept = "".join(f"{line}\n" for line in lines[-HISTORY_LINES_MAX:])
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        # Path.mkdir(parents=True) would use the mode only for the last folder.
        for folder in (*reversed(path.parent.parents), path.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(kept.encode(errors="replace"))
        part.replace(path)
    except OSError as error:
        warn(f"cannot save the history: {path}: {error.strerror or error}")


def complete(shell: Shell, words: Sequence[str], prefix: str) -> list[str]:
    """Return the possible completions of ``prefix``."""
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
    # Avoid examining each of 500,000 names.
    first = bisect_left(names, utf16_key(last), key=utf16_key)
    for name in takewhile(lambda each: each.startswith(last), names[first:]):
        # readline prints candidates unchanged, and spaces end a word.
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


def split_line(line: str) -> list[str]:
    """Return the words of a line.

    A quote at the start of a word is dropped together with its closing quote. Elsewhere, quotes are
    kept. In both cases, quoted spaces do not separate words. A backslash is dropped, and the
    character after it stands for itself. An unclosed quote extends to the end of the line. Empty
    words are left out.
    """
    words: list[str] = []
    word: list[str] = []
    quote = ""
    is_dropped = is_escaped = False
    for each in line:
        if is_escaped:
            is_escaped = False
            word.append(each)
        elif each == _ESCAPE:
            is_escaped = True
        elif not quote and each in _QUOTES:
            quote, is_dropped = each, not word
            word += "" if is_dropped else each
        elif each == quote:
            quote = ""
            word += "" if is_dropped else each
        elif each.isspace() and not quote:
            _end_word(words, word)
        else:
            word.append(each)
    _end_word(words, word)
    return words


def _end_word(words: list[str], word: list[str]) -> None:
    """Add a word, unless it is empty, and begin the next."""
    if word:
        words.append("".join(word))
        word.clear()
