"""The command ``shell``: its flags, a single shell command, or an interactive session.

Exit codes: 0 done, 1 a path does not exist (or a fault), 2 invalid arguments or an invalid command.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from authorizerd.cli import flags
from authorizerd.cli.configuration_file import read_configuration
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import warn
from authorizerd.cli.profile import use_profile
from authorizerd.cli.question_words import MOMENT_HELP, read_moment
from authorizerd.cli.shell.commands import Shell
from authorizerd.cli.shell.conversation import converse, split_line
from authorizerd.cli.shell.log_tree import describe_unread, log_tree, read_contents
from authorizerd.cli.shell.tree import Folder
from authorizerd.metadata.errors import LogDirectoryError

_LINE_CHARACTERS_MAX: Final = 64 * 1024


class Opened(NamedTuple):
    """A tree that was read.

    Attributes:
        title: a one-line description.
        notes: one line for each thing that it lacks.
    """

    root: Folder
    title: str
    notes: tuple[str, ...] = ()


class ShellRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The flags that name the place of the metadata."""

    refuse: flags.Refuse
    log_dir: Path | None
    snapshot: Path | None
    config: Path | None
    override: tuple[str, ...]
    as_of: str | None
    bootstrap_server: str | None
    command_config: str | None


def add_shell_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run_shell, refuse=parser.error)
    parser.description = (
        "Browse a metadata log as folders and files: ls, cat, cd, find, tree. Without COMMAND, "
        "commands are read interactively; help lists them."
    )
    group = parser.add_argument_group(
        "where the metadata is: one of --log-dir, --snapshot, --config and --bootstrap-server"
    )
    flags.add_log_dir_argument(group)
    group.add_argument(
        "-s",
        "--snapshot",
        type=Path,
        metavar="FILE",
        help="a .checkpoint file, as in kafka-metadata-shell",
    )
    flags.add_config_arguments(group, required=False)
    text = f"show the metadata of this moment: {MOMENT_HELP}. It needs --log-dir or --config"
    flags.add_text(group, "--as-of", "MOMENT", text)
    flags.add_broker_arguments(group, "DESCRIBE and DESCRIBE_CONFIGS on the cluster show most")
    text = "one command and its arguments: ls, cat, find or tree"
    flags.add_text(parser, "words", "COMMAND", text, nargs=argparse.REMAINDER)


def run_shell(arguments: argparse.Namespace) -> int:
    opened = _open(flags.read_request(ShellRequest, arguments))
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
            raise CommandError(
                f"standard input: expected lines of fewer than {_LINE_CHARACTERS_MAX} characters"
            )
        shell.remember(line.rstrip("\n"))
        code = shell.run(split_line(line))
    return code


def _open(request: ShellRequest) -> Opened:
    request, _ = use_profile(request, "log_dir", "snapshot", "config")
    _check_flags(request)
    if request.bootstrap_server is not None:
        # Kafka's message definitions take longer to load than the rest of the command.
        from authorizerd.cli.shell.broker_tree import NOTE, open_broker_tree

        root = open_broker_tree(request.bootstrap_server, request.command_config)
        return Opened(root, f"as reported by {request.bootstrap_server}", (NOTE,))
    path = request.log_dir or request.snapshot
    if path is None:
        assert request.config is not None, "the flags are checked"
        configuration = read_configuration(request.config, request.override)
        path = Path(configuration.metadata_log_dir)
    if path.suffix == ".log":
        raise LogDirectoryError(f"{path}: expected a log directory or a .checkpoint file")
    contents = read_contents(path, read_moment(request.as_of, "--as-of", request.refuse))
    notes = (describe_unread(contents.unread),) if contents.unread else ()
    return Opened(log_tree(contents), f"{path} at offset {contents.provenance.offset}", notes)


def _check_flags(request: ShellRequest) -> None:
    refuse = request.refuse
    sources = {
        "--bootstrap-server": request.bootstrap_server,
        "--log-dir": request.log_dir,
        "--snapshot": request.snapshot,
        "--config": request.config,
    }
    given = [flag for flag, value in sources.items() if value is not None]
    if not given:
        refuse(
            "expected --log-dir DIR, --snapshot FILE, --config FILE, whose log directory is read, "
            "or --bootstrap-server HOST:PORT"
        )
    if len(given) > 1 and given != ["--log-dir", "--config"]:
        refuse(f"{given[1]}: expected either {given[0]} or {given[1]}, found both")
    if request.override and request.config is None:
        refuse("--override: expected --config as well")
    if request.bootstrap_server is None and request.command_config is not None:
        refuse("--command-config: expected --bootstrap-server as well")
    if request.bootstrap_server is not None and request.as_of is not None:
        refuse("--as-of: expected a log: brokers do not show the past")
