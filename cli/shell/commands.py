"""The commands of the metadata shell: ``ls``, ``cat``, ``cd``, ``find``, ``tree`` and others.

Their output is the same as Kafka's shell's, including errors, which go to standard output.

**Invariant:** a name or a value never controls a terminal: unprintable characters are escaped.

Source: Kafka 4.3 LsCommandHandler, CatCommandHandler and their siblings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.shell.syntax import Call, ShellError, Syntax, parse_call, parse_integer
from authorizerd.cli.shell.tree import Folder, Match, Node, find_matches, resolve

DONE: Final = 0
NOT_FOUND: Final = 1
INVALID: Final = 2

_INDENT: Final = "  "
_COUNT: Final = "numEntriesToShow"


class Shell:
    """A tree, and the user's current folder in it.

    Attributes:
        width: the terminal's width in characters; None if the output is not a terminal.
        history: the lines that were entered, oldest first.
        has_ended: True once the user wants to leave.
    """

    def __init__(
        self, root: Folder, write: Callable[[str], object], *, is_interactive: bool
    ) -> None:
        self.root: Final = root
        self.working_directory = "/"
        self.width: int | None = None
        self.history: list[str] = []
        self.has_ended = False
        self._write: Final = write
        self._is_interactive: Final = is_interactive
        self._code = DONE

    def run(self, words: Sequence[str]) -> int:
        try:
            call = parse_call(words, self.commands)
        except ShellError as error:
            self.print(str(error))
            return INVALID
        self._code = DONE
        if call is not None:
            self._run(call)
        return self._code

    def remember(self, line: str) -> bool:
        """Add a line to the history; return whether it was added.

        Empty lines, lines that begin with a space and repeated lines are left out, as in Kafka's
        shell.
        """
        kept = line.strip()
        if not kept or line[0].isspace() or self.history[-1:] == [kept]:
            return False
        self.history.append(kept)
        return True

    @property
    def commands(self) -> Mapping[str, Syntax]:
        return {
            name: command.syntax
            for name, command in _COMMANDS.items()
            if self._is_interactive or not command.syntax.is_interactive
        }

    def _run(self, call: Call) -> None:
        if call.asks_help:
            self.print_lines(_describe(call.name, _COMMANDS[call.name].syntax))
            return
        try:
            _COMMANDS[call.name].run(self, call.arguments)
        except ShellError as error:
            self.print(str(error))
            self._code = INVALID

    def print(self, line: str) -> None:
        self._write(f"{escape_unprintable(line)}\n")

    def print_lines(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.print(line)

    def fail(self, line: str) -> None:
        """Print why a path does not exist."""
        self.print(line)
        self._code = NOT_FOUND

    def match(self, path: str, absence: str) -> Iterator[Match]:
        """Yield the nodes that a path leads to; if there is none, print ``absence``."""
        found = find_matches(self.root, resolve(self.working_directory, path))
        first = next(found, None)
        if first is None:
            self.fail(absence)
        else:
            yield first
            yield from found


def _paths(arguments: Sequence[str]) -> Sequence[str]:
    return [path for path in arguments if path] or ["."]


def _list(shell: Shell, arguments: Sequence[str]) -> None:
    files: list[str] = []
    folders: list[tuple[str, Folder]] = []
    for path in _paths(arguments):
        for match in shell.match(path, f"ls: {path}: no such file or directory."):
            if isinstance(match.node, Folder):
                folders.append((match.last_name, match.node))
            else:
                files.append(match.last_name)
    _print_names(shell, files)
    has_headings = bool(files) or len(folders) > 1
    for number, (name, folder) in enumerate(folders):
        # Kafka's shell omits the heading of an empty folder, but not the blank line.
        if has_headings and folder.names():
            if files or number:
                shell.print("")
            shell.print(f"{name}:")
        _print_names(shell, folder.names())


def _print_names(shell: Shell, names: Sequence[str]) -> None:
    # Escape first: the columns depend on what is shown.
    shell.print_lines(lay_out([escape_unprintable(name) for name in names], shell.width))


def _concatenate(shell: Shell, arguments: Sequence[str]) -> None:
    for path in arguments:
        for match in shell.match(path, f"cat: {path}: No such file or directory."):
            if isinstance(match.node, Folder):
                shell.fail(f"cat: {path}: Is a directory")
            else:
                shell.print_lines(iter(match.node.lines))


def _cd(shell: Shell, arguments: Sequence[str]) -> None:
    path = arguments[0] if arguments else "/"
    for match in list(shell.match(path, f"cd: {path}: no such directory.")):
        if isinstance(match.node, Folder):
            shell.working_directory = f"/{'/'.join(match.names)}"
        else:
            shell.fail(f"cd: {path}: not a directory.")


def _find(shell: Shell, arguments: Sequence[str]) -> None:
    for path in _paths(arguments):
        for match in shell.match(path, f"find: {path}: no such file or directory."):
            shell.print_lines(_walk(path, match.node))


def _walk(path: str, node: Node) -> Iterator[str]:
    yield path
    if isinstance(node, Folder):
        prefix = path if path == "/" else f"{path}/"
        for name in node.names():
            child = None if node.has_only_files else node.find(name)
            if isinstance(child, Folder):
                yield from _walk(f"{prefix}{name}", child)
            else:
                yield f"{prefix}{name}"


def _tree(shell: Shell, arguments: Sequence[str]) -> None:
    for path in arguments:
        for match in shell.match(path, f"tree: {path}: No such file or directory."):
            shell.print_lines(_draw(match.node, ""))


def _draw(node: Node, indent: str) -> Iterator[str]:
    if not isinstance(node, Folder):
        yield from (f"{indent}{line}" for line in node.lines)
        return
    for name in node.names():
        yield f"{indent}{name}:"
        child = node.find(name)
        if child is not None:
            yield from _draw(child, indent + _INDENT)


def _pwd(shell: Shell, _: Sequence[str]) -> None:
    shell.print(shell.working_directory)


def _history(shell: Shell, arguments: Sequence[str]) -> None:
    wanted = max(parse_integer(arguments[0], _COUNT), 0) if arguments else len(shell.history)
    first = max(len(shell.history) - wanted, 0)
    for number, line in enumerate(shell.history[first:], first):
        shell.print(f"{number: 5d}  {line}")


def _exit(shell: Shell, _: Sequence[str]) -> None:
    shell.has_ended = True


def _help(shell: Shell, _: Sequence[str]) -> None:
    commands = shell.commands
    width = max(map(len, commands))
    shell.print("The metadata of a cluster, as folders and files. The commands:")
    shell.print("")
    for name, syntax in commands.items():
        shell.print(f"  {name.ljust(width)}  {syntax.help}")
    shell.print("")
    shell.print("Paths may contain * ? and {a,b}. For more about a command, type: man COMMAND")


def _man(shell: Shell, arguments: Sequence[str]) -> None:
    (name,) = arguments
    command = _COMMANDS.get(name)
    if command is None:
        shell.fail(f"man: unknown command {name}. Type help to get a list of commands.")
    else:
        shell.print_lines(_describe(name, command.syntax))


def _describe(name: str, syntax: Syntax) -> Iterator[str]:
    yield f"{name}: {syntax.help}"
    yield ""
    yield f"usage: {name}{syntax.usage}"
    if syntax.about:
        yield ""
        yield f"  {syntax.argument}: {syntax.about}"


class _Command(NamedTuple):
    run: Callable[[Shell, Sequence[str]], None]
    syntax: Syntax


_PRINTED: Final = "the nodes to print"
_COUNTED: Final = "how many of the latest lines to print"
_COMMANDS: Final[Mapping[str, _Command]] = {
    name: _Command(run, Syntax(*syntax))
    for name, run, *syntax in (
        ("cat", _concatenate, "Print files.", "targets", "the files to print", 1),
        ("cd", _cd, "Go to a folder.", "target", "the folder; / without it", 0, 1, True),
        ("exit", _exit, "Leave the shell.", "", "", 0, None, True),
        ("find", _find, "Print all paths below a path.", "paths", "where to begin"),
        ("help", _help, "List the commands.", "", "", 0, None, True),
        ("history", _history, "Print the lines that were entered.", _COUNT, _COUNTED, 0, 1, True),
        ("ls", _list, "List folders.", "targets", "the folders and files to list"),
        ("man", _man, "Explain a command.", "cmd", "the command", 1, 1, True),
        ("pwd", _pwd, "Print the current folder.", "", "", 0, None, True),
        ("tree", _tree, "Print folders with everything in them.", "targets", _PRINTED, 1),
    )
}


_COLUMN_WIDTH_MIN = 4
_GAP = 2


def lay_out(names: Sequence[str], width: int | None) -> Iterator[str]:
    """Yield the lines that show the names.

    Args:
        width: the terminal's width in characters; None prints one name per line.
    """
    rows, widths = _fit(names, width)
    for row in range(rows):
        cells = names[row::rows]
        *others, last = [
            cell.ljust(column_width) for cell, column_width in zip(cells, widths, strict=False)
        ]
        # Kafka pads a cell if a column follows, even a column that ends above this row.
        is_last_column = len(cells) == len(widths)
        yield "".join((*others, cells[-1] if is_last_column else last))


def _fit(names: Sequence[str], width: int | None) -> tuple[int, list[int]]:
    """Return the number of rows, and the width of each column, for as many columns as fit."""
    widest = (width or 0) // _COLUMN_WIDTH_MIN
    for count in range(min(widest, len(names)), 1, -1):
        rows = -(-len(names) // count)
        widths = [
            max(map(len, names[start : start + rows])) + _GAP
            for start in range(0, len(names), rows)
        ]
        if len(widths) == count and sum(widths) <= (width or 0):
            return rows, widths
    return len(names), [0]
