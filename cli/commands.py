"""The commands by name: what the help says about each, and the function that runs it.

**Invariant:** a command's modules are imported once the command is chosen, and only in this module.
So ``--help`` loads no command, and no command loads the definitions that only another one needs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from authorizerd.config.command_parser import CommandParser, LazyParser

if TYPE_CHECKING:
    from authorizerd.acl.as_of import AsOf
    from authorizerd.cli.acl_source import BrokerAnswer
    from authorizerd.cli.acls.arguments import Arguments
    from authorizerd.cli.acls.runner import AclReader, Terminal
    from authorizerd.cli.shell.tree import Folder


class Command(NamedTuple):
    """A command.

    ``help`` is None for an internal one. ``add_arguments`` is None if the command parses its own
    words.
    """

    help: str | None
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None


def _add_serve(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.configuration_file import add_config_arguments

    parser.set_defaults(run=_serve)
    add_config_arguments(parser)
    parser.add_argument(
        "--ready-file",
        type=Path,
        metavar="FILE",
        help="once the daemon is ready, write its addresses to this file as JSON",
    )


def _serve(arguments: argparse.Namespace) -> int:
    from authorizerd.cli.serve import serve

    serve(arguments.config, arguments.override, arguments.ready_file)
    return 0


def _add_worker(parser: argparse.ArgumentParser) -> None:
    from authorizerd.daemon.workers.spawn import FEED_FLAG

    parser.set_defaults(run=_worker)
    parser.add_argument(FEED_FLAG, required=True, type=int, dest="feed")


def _worker(arguments: argparse.Namespace) -> int:
    from authorizerd.daemon.logging.setup import log_to_standard_error
    from authorizerd.daemon.worker import run_worker

    log_to_standard_error(is_worker=True)
    run_worker(arguments.feed)
    return 0


def _add_format(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.format import add_format_arguments

    add_format_arguments(parser)


def _add_token(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.token import add_token_arguments

    add_token_arguments(parser)


def _add_import_config(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.import_config import add_import_arguments

    add_import_arguments(parser)


def _add_reset_copy(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.reset_copy import add_reset_arguments

    add_reset_arguments(parser)


def _add_backup(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.backup import add_backup_arguments

    add_backup_arguments(parser)


def _add_features(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.features import add_features_arguments

    add_features_arguments(parser)


def _add_restore(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.restore import add_restore_arguments

    add_restore_arguments(parser)


def _add_explain(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.questions.explain import add_explain_arguments

    add_explain_arguments(parser, _read_brokers)


def _add_who_can(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.questions.who_can import add_who_can_arguments

    add_who_can_arguments(parser, _read_brokers)


def _add_what_can(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.questions.what_can import add_what_can_arguments

    add_what_can_arguments(parser, _read_brokers)


def _add_can(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.questions.can import add_can_arguments

    add_can_arguments(parser, _read_brokers)


def _add_test(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.policy.arguments import add_test_arguments

    add_test_arguments(parser, _read_brokers)


def _add_shell(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.shell.command import add_shell_arguments

    add_shell_arguments(parser, _open_brokers)


def _open_brokers(servers: str, command_config: str | None) -> tuple[Folder, str]:
    from authorizerd.cli.shell.broker_tree import open_broker_tree

    return open_broker_tree(servers, command_config)


def _read_brokers(servers: str, command_config: str | None) -> BrokerAnswer:
    from authorizerd.cli.broker_acls import read_brokers

    return read_brokers(servers, command_config)


def _add_history(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.questions.history import add_history_arguments

    add_history_arguments(parser)


def _add_acls_plan(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.change.arguments import add_plan_arguments

    add_plan_arguments(parser, _read_brokers)


def _add_acls_remove(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.change.removal_arguments import add_remove_arguments

    add_remove_arguments(parser, _read_brokers)


def _add_acls_compare(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.change.release_arguments import add_compare_arguments

    add_compare_arguments(parser, _read_brokers)


def _add_acls_export(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.transfer.command import add_export_command

    add_export_command(parser)


def _add_acls_import(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.transfer.command import add_import_command

    add_import_command(parser)


def _add_acls_apply(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.change.apply_arguments import add_apply_arguments

    add_apply_arguments(parser)


COMMANDS: Final[Mapping[str, Command]] = {
    "serve": Command("run the daemon", _add_serve),
    "format": Command("create an empty log directory", _add_format),
    "worker": Command(None, _add_worker),  # only the daemon runs it
    "token": Command("create a token for a caller of a decision port", _add_token),
    "import-config": Command(
        "write a configuration that follows the cluster of a broker's server.properties",
        _add_import_config,
    ),
    "reset-copy": Command(
        "remove the local copy of a followed cluster's metadata", _add_reset_copy
    ),
    "backup": Command("write the state of a log to one file, while it is in use", _add_backup),
    "restore": Command("verify a backup, and put it in place of a log", _add_restore),
    "features": Command("show or raise the metadata.version of a log", _add_features),
    "acls": Command("list, add and remove ACLs, with the flags of kafka-acls"),
    "check-log": Command("validate a metadata log, or repair it"),
    "doctor": Command(
        "find problems with the configuration, this machine and the followed cluster"
    ),
    "replay": Command("use Spark to check recorded traffic against other ACLs"),
    "explain": Command("show a decision, its reason, and what would change it", _add_explain),
    "who-can": Command("show who may do an operation to a resource", _add_who_can),
    "what-can": Command("show what a principal may do, and where", _add_what_can),
    "can": Command("show what a principal may do to one resource", _add_can),
    "test": Command("run policy tests: assertions about access in YAML files", _add_test),
    "history": Command(
        "show who could do what since when, as far back as a log reaches", _add_history
    ),
    "shell": Command("look into a metadata log as into folders and files", _add_shell),
}

DAEMONS: Final = (COMMANDS["serve"], COMMANDS["worker"])
"""The commands that obey signals by themselves."""

ACLS_COMMANDS: Final[Mapping[str, Command]] = {
    "plan": Command("show what files of desired ACLs would change", _add_acls_plan),
    "apply": Command("make exactly the changes of a plan", _add_acls_apply),
    "remove": Command("remove all ACLs of a principal or of a resource", _add_acls_remove),
    "compare-releases": Command(
        "show which ACLs mean something else in another release of Kafka", _add_acls_compare
    ),
    "export": Command("write the ACLs of a cluster, a log or a file elsewhere", _add_acls_export),
    "import": Command("add ACLs from elsewhere to a cluster, a log or a file", _add_acls_import),
}
"""The commands that may follow ``acls`` as its first word. kafka-acls ignores such words."""


def _run_acls(words: Sequence[str]) -> int:
    if words and words[0] in ACLS_COMMANDS:
        parsed = new_acls_parser().parse_words(words)
        code: int = parsed.run(parsed)
        return code
    if words and not words[0].startswith("-"):
        from authorizerd.acl.typos import find_similar

        # Without this, kafka-acls' parser would ignore the word, and blame a flag.
        meant = find_similar(words[0], ACLS_COMMANDS)
        if meant is not None:
            new_acls_parser().error(f"unknown command '{words[0]}' (did you mean {meant}?)")
    return _run_kafka_acls(words)


def new_acls_parser() -> CommandParser:
    """Return the parser of ``acls`` with one of its commands."""
    parser = CommandParser(prog="authorizerd acls")
    add_acls_commands(parser)
    return parser


def add_acls_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands that may follow ``acls``."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=LazyParser)
    for name, command in ACLS_COMMANDS.items():
        commands.add_parser(name, add_arguments=command.add_arguments, help=command.help)


def _run_kafka_acls(words: Sequence[str]) -> int:
    from authorizerd.cli.acls.command import run_acl_command
    from authorizerd.cli.acls.runner import Terminal

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # as Java prints unencodable characters
    terminal = Terminal(answers=sys.stdin, out=sys.stdout, error=sys.stderr)
    return run_acl_command(
        words,
        terminal,
        open_log=_open_log,
        execute_remotely=_execute_remotely,
        commands={name: command.help or "" for name, command in ACLS_COMMANDS.items()},
    )


def _open_log(path: Path, as_of: AsOf | None) -> AclReader:
    from authorizerd.cli.offline import SnapshotAcls, read_snapshot

    return SnapshotAcls(read_snapshot(path, as_of))


def _execute_remotely(given: Arguments, terminal: Terminal) -> None:
    from authorizerd.cli.acls.remote import execute_remotely

    execute_remotely(given, terminal)


def _run_check_log(words: Sequence[str]) -> int:
    from authorizerd.cli.check_log import run_check_log

    return run_check_log(words, sys.stdout)


def _run_doctor(words: Sequence[str]) -> int:
    from authorizerd.cli.doctor.command import run_doctor

    return run_doctor(words, sys.stdout)


def _run_replay(words: Sequence[str]) -> NoReturn:
    from authorizerd.cli.replay import become_replay

    become_replay(words)


OWN_PARSERS: Final[Mapping[str, Callable[[Sequence[str]], int]]] = {
    "acls": _run_acls,
    "check-log": _run_check_log,
    "doctor": _run_doctor,
    "replay": _run_replay,
}
"""The commands that parse their own words.

argparse cannot parse flags as kafka-acls does; check-log and doctor exit with 1 for invalid
arguments; replay is a separate program.
"""
