"""The command ``authorizerd``: parse the words, run the command, report a known error in one line.

Exit codes: 0 done (``explain``: allowed), 1 a fault (one line on standard error), 2 invalid
arguments, 3 ``explain``: denied. ``acls``, ``check-log``, ``doctor``, ``import-config`` and
``replay`` define other codes; docs/exit-codes.md lists all of them.
"""

from __future__ import annotations

import argparse
import logging
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import Final, NoReturn

from authorizerd.acl.errors import AclError
from authorizerd.actors.errors import EndpointStartError, LogWriteError, UnfitChangeError
from authorizerd.cli.acls.command import run_acl_command
from authorizerd.cli.acls.runner import Terminal
from authorizerd.cli.check_log import run_check_log
from authorizerd.cli.configuration_file import add_config_arguments, read_configuration
from authorizerd.cli.doctor.command import run_doctor
from authorizerd.cli.explain import add_explain_arguments
from authorizerd.cli.import_config import add_import_arguments
from authorizerd.cli.offline import SnapshotAcls, read_snapshot
from authorizerd.cli.replay import become_replay
from authorizerd.cli.reset_copy import add_reset_arguments
from authorizerd.cli.scram import read_scram_arguments
from authorizerd.cli.standard_streams import tolerate_lost_readers
from authorizerd.cli.token import add_token_arguments
from authorizerd.config.command_parser import CommandParser
from authorizerd.config.configuration import Configuration
from authorizerd.config.errors import ConfigurationError
from authorizerd.config.keys import describe_ignored_key
from authorizerd.config.values import PLAIN
from authorizerd.daemon.early_signals import hold_sighup
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.lifespan import run_daemon
from authorizerd.daemon.logging.setup import log_to_standard_error, report_fault, set_log_format
from authorizerd.daemon.sources.copy_directory import (
    claim_copy_directory,
    prepare_copy_directory,
)
from authorizerd.daemon.sources.own_log_directory import (
    check_log_is_there,
    claim_log_directory,
    format_log_directory,
)
from authorizerd.daemon.worker import run_worker
from authorizerd.daemon.workers.spawn import FEED_FLAG
from authorizerd.image.changes import CredentialAdded
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.lock import locked
from authorizerd.metadata.meta_properties import MetaProperties
from authorizerd.metadata.storage import DISK, PRIVATE_DISK
from authorizerd.protocol.records.scram import ScramMechanism

EXIT_FAULT: Final = 1

_NAMED_ERRORS: Final = (
    AclError,
    ConfigurationError,
    EndpointStartError,
    LogWriteError,
    MetadataLogError,
    StartError,
    UnfitChangeError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        run = _OWN_PARSERS.get(words[0]) if words else None
        if run is not None:
            return run(words[1:])
        parsed = new_parser().parse_words(words)
        code: int = parsed.run(parsed)
    # trio's nurseries raise groups, even for a single error.
    except BaseExceptionGroup as group:
        return _report(group)
    except _NAMED_ERRORS as error:
        return _report(error)
    return code


def _report(error: BaseException) -> int:
    """Print a known error in one line; re-raise any other, which is a defect."""
    named = [leaf for leaf in _leaves(error) if isinstance(leaf, _NAMED_ERRORS)]
    if not named:
        raise error
    report_fault(str(named[0]))
    return EXIT_FAULT


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _run_acls(words: Sequence[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # as Java prints unencodable characters
    terminal = Terminal(answers=sys.stdin, out=sys.stdout, error=sys.stderr)
    return run_acl_command(words, terminal, open_log=lambda path: SnapshotAcls(read_snapshot(path)))


# These commands parse their own words. argparse cannot parse flags as kafka-acls does; check-log
# and doctor exit with 1 for invalid arguments; replay is a separate program.
_OWN_PARSERS: Final[Mapping[str, Callable[[Sequence[str]], int]]] = {
    "acls": _run_acls,
    "check-log": lambda words: run_check_log(words, sys.stdout),
    "doctor": lambda words: run_doctor(words, sys.stdout),
    "replay": become_replay,
}


def new_parser() -> CommandParser:
    """Return the parser. The commands of ``_OWN_PARSERS`` only appear in its help."""
    parser = CommandParser(
        prog="authorizerd",
        description="Apache Kafka's ACL authorizer as a daemon.",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # the version has several lines
    )
    parser.add_argument("--version", action="version", version=_versions())
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands.add_parser("serve", help="run the daemon"))
    _add_format(commands.add_parser("format", help="create an empty log directory"))
    _add_worker(commands.add_parser("worker"))  # no help text: only the daemon runs it
    add_token_arguments(
        commands.add_parser("token", help="create a token for a caller of a decision port")
    )
    add_import_arguments(
        commands.add_parser(
            "import-config",
            help="write a configuration that follows the cluster of a broker's server.properties",
        )
    )
    add_reset_arguments(
        commands.add_parser(
            "reset-copy", help="remove the local copy of a followed cluster's metadata"
        )
    )
    commands.add_parser("acls", help="list, add and remove ACLs, with the flags of kafka-acls")
    commands.add_parser("check-log", help="validate a metadata log, or repair it")
    commands.add_parser(
        "doctor", help="find problems with the configuration, this machine and the followed cluster"
    )
    commands.add_parser("replay", help="use Spark to check recorded traffic against other ACLs")
    add_explain_arguments(
        commands.add_parser(
            "explain", help="show a decision and its reason, from a log or checkpoint"
        )
    )
    return parser


def _versions() -> str:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"authorizerd {version('authorizerd')}\n{python}\n{platform.platform()}"


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_serve)
    add_config_arguments(parser)
    parser.add_argument(
        "--ready-file",
        type=Path,
        metavar="FILE",
        help="once the daemon is ready, write its addresses to this file as JSON",
    )


def _add_worker(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_worker)
    parser.add_argument(FEED_FLAG, required=True, type=int, dest="feed")


def _worker(arguments: argparse.Namespace) -> int:
    log_to_standard_error(is_worker=True)
    run_worker(arguments.feed)
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    log_to_standard_error()
    read = partial(read_configuration, arguments.config, arguments.override)
    configuration = read()
    set_log_format(configuration.log_format)
    _warn(configuration)
    log_dir, follow = Path(configuration.metadata_log_dir), configuration.follow
    # Before locking, which would create the lock's file in a directory without a log.
    if follow is None:
        check_log_is_there(log_dir)
    else:
        prepare_copy_directory(log_dir, PRIVATE_DISK)
    with locked(log_dir):
        run_daemon(read, _claim_directory(configuration), arguments.ready_file)
    return 0


def _claim_directory(configuration: Configuration) -> MetaProperties:
    log_dir, node_id = Path(configuration.metadata_log_dir), configuration.node_id
    if configuration.follow is None:
        return claim_log_directory(log_dir, node_id=node_id, storage=DISK)
    kind = configuration.follow.kind
    return claim_copy_directory(log_dir, kind, node_id=node_id, storage=PRIVATE_DISK)


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_format)
    add_config_arguments(parser)
    parser.add_argument("--cluster-id", help="the cluster's id (default: a random one)")
    parser.add_argument(
        "--add-scram",
        action="append",
        default=[],
        metavar="'MECHANISM=[name=USER,password=PASSWORD]'",
        help="add a user's SCRAM credential, in kafka-storage's syntax; may be repeated",
    )


def _format(arguments: argparse.Namespace) -> int:
    credentials = read_scram_arguments(arguments.add_scram)
    configuration = read_configuration(arguments.config, arguments.override)
    if configuration.follow is not None:
        raise StartError(
            "this configuration follows a cluster, whose log the daemon copies by itself: nothing"
            " to format"
        )
    log_dir = Path(configuration.metadata_log_dir)
    properties = format_log_directory(
        log_dir,
        cluster_id=arguments.cluster_id,
        node_id=configuration.node_id,
        storage=DISK,
        credentials=credentials,
    )
    print(f"Formatted {log_dir}: cluster {properties.cluster_id}, node {properties.node_id}")
    for listener in _listeners_without_users(configuration, credentials):
        print(
            f"authorizerd: warning: nobody can log in at {listener}: it offers only SCRAM, and the"
            f" log has no user for it. Remove {log_dir}, and format it with --add-scram, or enable"
            " PLAIN, too.",
            file=sys.stderr,
        )
    return 0


def _listeners_without_users(
    configuration: Configuration, credentials: Sequence[CredentialAdded]
) -> list[str]:
    """Return the listeners that offer only SCRAM, and only mechanisms without a user."""
    usable = {PLAIN, *(ScramMechanism(each.mechanism).text for each in credentials)}
    return [
        name
        for name, login in configuration.sasl_listeners.items()
        if usable.isdisjoint(login.mechanisms)
    ]


def _warn(configuration: Configuration) -> None:
    logger = logging.getLogger("authorizerd")
    if configuration.ignored_keys:
        logger.warning(
            "unsupported keys are ignored: %s",
            ", ".join(map(describe_ignored_key, configuration.ignored_keys)),
        )


def run_and_exit() -> NoReturn:
    """Run as the console command."""
    hold_sighup(sys.argv[1:])  # repeated: this module can run without ``__main__``
    tolerate_lost_readers()
    try:
        code: int | str | None = main()
    except SystemExit as end:  # argparse has already printed its message
        code = end.code
    try:
        # If Python's own flush at exit failed, the exit code would be 120.
        sys.stdout.flush()
    except StartError as error:
        code = _report(error)
    sys.exit(code)


if __name__ == "__main__":
    run_and_exit()
