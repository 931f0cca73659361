"""The command ``shell``: its flags, one command of the shell, or a conversation.

Exit codes: 0 done, 1 a path leads nowhere (or a fault), 2 invalid arguments or an invalid command.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from authorizerd.cli.configuration_file import add_config_arguments, read_configuration
from authorizerd.cli.question_words import MOMENT_HELP, Refuse, read_moment
from authorizerd.cli.questions.answers import warn
from authorizerd.cli.shell.commands import Shell
from authorizerd.cli.shell.conversation import converse
from authorizerd.cli.shell.line_words import split_line
from authorizerd.cli.shell.log_contents import describe_unread
from authorizerd.cli.shell.log_source import read_contents
from authorizerd.cli.shell.log_tree import log_tree
from authorizerd.cli.shell.tree import Folder
from authorizerd.daemon.errors import StartError
from authorizerd.metadata.errors import LogDirectoryError

_LINE_CHARACTERS_MAX: Final = 64 * 1024


class Opened(NamedTuple):
    """A tree that was read.

    Attributes:
        title: what it is, in one line.
        notes: what it lacks, a line each.
    """

    root: Folder
    title: str
    notes: tuple[str, ...] = ()


OpenBrokers: TypeAlias = Callable[[str, str | None], Opened]
"""Read the tree of the brokers at these addresses, with this ``--command-config`` file."""


def add_shell_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``shell``."""
    parser.set_defaults(run=run_shell, refuse=parser.error)
    parser.description = (
        "Look into a metadata log as into folders and files: ls, cat, cd, find, tree. Without "
        "COMMAND, type commands; help lists them."
    )
    group = parser.add_argument_group(
        "where the metadata is: one of --log-dir, --snapshot and --config"
    )
    group.add_argument(
        "--log-dir",
        type=Path,
        metavar="DIR",
        help="a log directory, which contains __cluster_metadata-0, or a .checkpoint file; "
        "with --config, instead of the log directory of that configuration",
    )
    group.add_argument(
        "-s",
        "--snapshot",
        type=Path,
        metavar="FILE",
        help="a .checkpoint file, as in kafka-metadata-shell",
    )
    add_config_arguments(group, required=False)
    group.add_argument(
        "--as-of",
        metavar="MOMENT",
        help=f"show the metadata of this moment: {MOMENT_HELP}. It needs --log-dir or --config",
    )
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="one command and its arguments: ls, cat, find or tree",
    )


def run_shell(arguments: argparse.Namespace) -> int:
    """Run one command of the shell, or a conversation; return the exit code. Blocks.

    Raises:
        StartError, ConfigurationError: the configuration is unusable.
        MetadataLogError: see ``read_contents``.
    """
    opened = _open(arguments)
    for note in opened.notes:
        warn(note)
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    shell = Shell(opened.root, sys.stdout.write, is_interactive=not words)
    if words:
        return shell.run(words)
    if sys.stdin.isatty() and sys.stdout.isatty():
        return converse(shell, opened.title, lambda: shutil.get_terminal_size().columns)
    return _run_lines(shell)


def _run_lines(shell: Shell) -> int:
    """Run the commands of standard input; return the exit code of the last one, as ``sh`` does."""
    code = 0
    while not shell.has_ended and (line := sys.stdin.readline(_LINE_CHARACTERS_MAX)):
        if len(line) == _LINE_CHARACTERS_MAX:
            raise StartError(
                f"standard input: expected lines of less than {_LINE_CHARACTERS_MAX} characters"
            )
        shell.remember(line.rstrip("\n"))
        code = shell.run(split_line(line))
    return code


def _open(arguments: argparse.Namespace) -> Opened:
    refuse: Refuse = arguments.refuse
    if arguments.config is None and arguments.override:
        refuse("--override: expected --config as well")
    if arguments.log_dir is not None and arguments.snapshot is not None:
        refuse("--snapshot: expected either --log-dir or --snapshot, found both")
    path: Path | None = arguments.log_dir or arguments.snapshot
    if path is None and arguments.config is not None:
        configuration = read_configuration(arguments.config, arguments.override)
        path = Path(configuration.metadata_log_dir)
    if path is None:
        refuse("expected --log-dir DIR, or --config FILE, whose log directory is read")
    as_of = read_moment(arguments.as_of, "--as-of", refuse)
    if path.suffix == ".log":
        raise LogDirectoryError(f"{path}: expected a log directory or a .checkpoint file")
    contents = read_contents(path, as_of)
    notes = (describe_unread(contents.unread),) if contents.unread else ()
    offset = contents.provenance.offset
    return Opened(log_tree(contents), f"{path} at offset {offset}", notes)
