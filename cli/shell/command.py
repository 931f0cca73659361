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

from authorizerd.cli.configuration_file import (
    add_broker_arguments,
    add_config_arguments,
    add_log_dir_argument,
    read_configuration,
)
from authorizerd.cli.profile import use_profile
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


OpenBrokers: TypeAlias = Callable[[str, str | None], tuple[Folder, str]]
"""Open the tree of the brokers at these addresses, with this ``--command-config`` file.

Returns: the tree, and what it lacks.
"""


def add_shell_arguments(parser: argparse.ArgumentParser, open_brokers: OpenBrokers) -> None:
    """Add the flags of ``shell``.

    Args:
        open_brokers: as ``read_brokers`` of ``acl_source.add_source_arguments``.
    """
    parser.set_defaults(run=run_shell, open_brokers=open_brokers, refuse=parser.error)
    parser.description = (
        "Look into a metadata log as into folders and files: ls, cat, cd, find, tree. Without "
        "COMMAND, type commands; help lists them."
    )
    group = parser.add_argument_group(
        "where the metadata is: one of --log-dir, --snapshot, --config and --bootstrap-server"
    )
    add_log_dir_argument(group)
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
    add_broker_arguments(group, "DESCRIBE and DESCRIBE_CONFIGS on the cluster show most")
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
    use_profile(arguments, "log_dir", "snapshot", "config")
    _check_flags(arguments, refuse)
    servers: str | None = arguments.bootstrap_server
    if servers is not None:
        open_brokers: OpenBrokers = arguments.open_brokers
        root, note = open_brokers(servers, arguments.command_config)
        return Opened(root, f"as told by {servers}", (note,))
    path: Path | None = arguments.log_dir or arguments.snapshot
    if path is None:
        configuration = read_configuration(arguments.config, arguments.override)
        path = Path(configuration.metadata_log_dir)
    if path.suffix == ".log":
        raise LogDirectoryError(f"{path}: expected a log directory or a .checkpoint file")
    contents = read_contents(path, read_moment(arguments.as_of, "--as-of", refuse))
    notes = (describe_unread(contents.unread),) if contents.unread else ()
    return Opened(log_tree(contents), f"{path} at offset {contents.provenance.offset}", notes)


def _check_flags(arguments: argparse.Namespace, refuse: Refuse) -> None:
    """End the command if the flags cannot be combined."""
    sources = {
        "--bootstrap-server": arguments.bootstrap_server,
        "--log-dir": arguments.log_dir,
        "--snapshot": arguments.snapshot,
        "--config": arguments.config,
    }
    given = [flag for flag, value in sources.items() if value is not None]
    if not given:
        refuse(
            "expected --log-dir DIR, --snapshot FILE, --config FILE, whose log directory is read, "
            "or --bootstrap-server HOST:PORT"
        )
    if len(given) > 1 and given != ["--log-dir", "--config"]:
        refuse(f"{given[1]}: expected either {given[0]} or {given[1]}, found both")
    if arguments.override and arguments.config is None:
        refuse("--override: expected --config as well")
    if arguments.bootstrap_server is None and arguments.command_config is not None:
        refuse("--command-config: expected --bootstrap-server as well")
    if arguments.bootstrap_server is not None and arguments.as_of is not None:
        refuse("--as-of: expected a log: brokers do not tell the past")
