"""The command ``authorizerd``: parse the words, run the command, report a known error in one line.

Exit codes: 0 done (``explain``: allowed), 1 a fault (one line on standard error), 2 invalid
arguments, 3 ``explain``: denied. ``acls``, ``check-log``, ``doctor``, ``import-config`` and
``replay`` define other codes; docs/command-line.md lists all of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

from authorizerd.acl.errors import AclError
from authorizerd.actors.errors import EndpointStartError, LogWriteError, UnfitChangeError
from authorizerd.cli.commands import COMMANDS, DAEMONS, add_commands
from authorizerd.cli.errors import CommandError
from authorizerd.cli.program import ending
from authorizerd.cli.program.command_parser import CommandParser
from authorizerd.cli.program.standard_streams import tolerate_lost_readers
from authorizerd.config.errors import ConfigurationError, OutputError
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.process.early_signals import hold_sighup
from authorizerd.metadata.errors import MetadataLogError

EXIT_FAULT: Final = 1

_NAMED_ERRORS: Final = (
    AclError,
    CommandError,
    ConfigurationError,
    EndpointStartError,
    LogWriteError,
    MetadataLogError,
    OutputError,
    StartError,
    UnfitChangeError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        code: int
        command = COMMANDS.get(words[0]) if words else None
        if command is not None and command.reads_words:
            code = command.load()(words[1:])
        else:
            parsed = new_parser().parse_words(words)
            code = parsed.run(parsed)
    # trio's nurseries raise groups, even for a single error.
    except BaseExceptionGroup as group:
        if ending.is_interrupt(group):
            raise KeyboardInterrupt from None
        return _report(group)
    except _NAMED_ERRORS as error:
        return _report(error)
    return code


def _report(error: BaseException) -> int:
    """Print a known error in one line, or all faults of a configuration; re-raise defects."""
    named = [leaf for leaf in _leaves(error) if isinstance(leaf, _NAMED_ERRORS)]
    if not named:
        raise error
    # An endpoint may have failed because of another, more helpful error.
    named.sort(key=lambda leaf: isinstance(leaf, EndpointStartError))
    from authorizerd.daemon.logging.setup import report_fault  # most commands log nothing

    first = named[0]
    for fault in first.faults if isinstance(first, ConfigurationError) else [first]:
        report_fault(str(fault))
    return EXIT_FAULT


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


class _PrintVersions(argparse._VersionAction):
    """The flag ``--version``. It looks up the versions only to print them, because that is slow."""

    def __call__(self, *words: Any, **settings: Any) -> None:  # noqa: ANN401 - as argparse
        self.version = _versions()
        super().__call__(*words, **settings)


def new_parser() -> CommandParser:
    """Return the parser. Commands that parse their own arguments appear only in its help."""
    parser = CommandParser(
        prog="authorizerd",
        description="Apache Kafka's ACL authorizer as a daemon.",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # the version has several lines
    )
    parser.add_argument("--version", action=_PrintVersions)
    add_commands(parser, COMMANDS)
    return parser


def _versions() -> str:
    import platform

    from authorizerd.daemon.telemetry.build import describe_version

    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"authorizerd {describe_version()}\n{python}\n{platform.platform()}"


def run_and_exit() -> NoReturn:
    """Run as the console command."""
    words = sys.argv[1:]
    hold_sighup(words)  # repeated: this module can run without ``__main__``
    tolerate_lost_readers()
    code: int | str | None
    try:
        if not words or words[0] not in DAEMONS:
            ending.obey_signals()
        try:
            code = main()
        except SystemExit as end:  # argparse has already printed its message
            code = end.code
        ending.end_without_words()  # Python itself would show a traceback
    except KeyboardInterrupt:
        ending.end_by_signal()
    try:
        # If Python's own flush at exit failed, the exit code would be 120.
        sys.stdout.flush()
    except OutputError as error:
        code = _report(error)
    sys.exit(code)


if __name__ == "__main__":
    run_and_exit()
