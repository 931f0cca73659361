"""``authorizerd acls``: a replacement for kafka-acls, with the same output and exit codes.

The order of lines is also the same wherever kafka-acls defines an order.

Ten things differ on purpose:

- If standard input is not a terminal, kafka-acls fails at its first question; this command reads
  the answers from it.
- ``--add`` warns, on standard error, about ACLs that probably do not have the intended effect.
- ``--remove`` says, on standard error, how many ACLs were removed.
- Words that belong to no flag are ignored, with a warning on standard error.
- ``--remove`` accepts a principal without a colon, which only ACLs of old Kafka versions have.
- Nothing is logged: a failed connection that is retried prints one line on standard error.
- ``--log-dir`` lists the ACLs of a log, without a server; ``--as-of`` lists those of a past moment;
  ``--json`` prints a document.
- If no flag names a server, ``AUTHORIZERD_PROFILE`` may name one.
- Invalid flags print a line that names ``--help``, not the whole help.
- If no server accepts a connection, or the security protocol, authentication or a certificate is
  wrong,
  the command ends at once with advice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from authorizerd.acl.as_of import AsOf, parse_as_of
from authorizerd.acl.errors import InvalidAsOfError
from authorizerd.acl.text.kafka_acls import RESOURCE_FLAGS
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acls import arguments
from authorizerd.cli.acls.errors import KafkaAclsError, UsageError
from authorizerd.cli.acls.plan import Listing, make_plan
from authorizerd.cli.acls.runner import AclReader, Terminal, execute_listing
from authorizerd.cli.flags import find_expanded
from authorizerd.cli.profile import SERVERS, read_profile

if TYPE_CHECKING:
    from authorizerd.cli.acls.remote import OpenServer

OpenLog: TypeAlias = Callable[[Path, AsOf | None], AclReader]
"""Reads the ACLs of a log, at a moment or at its end."""

EXIT_FAULT: Final = 1
_IGNORED_SHOWN: Final = 5
_PLACES: Final = ("bootstrap-server", "bootstrap-controller", "command-config", "log-dir")
_NO_COMMANDS: Final[Mapping[str, str]] = MappingProxyType({})
SEE_HELP: Final = "Run 'authorizerd acls --help' for the flags."
SEE_REMOVE: Final = "To remove all ACLs of a principal, run 'authorizerd acls remove --principal'."


def run_kafka_acls(words: Sequence[str], commands: Mapping[str, str]) -> int:
    """Run ``acls`` on this terminal. See ``run_acl_command``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # as Java prints unencodable characters
    terminal = Terminal(answers=sys.stdin, out=sys.stdout, error=sys.stderr)
    return run_acl_command(words, terminal, commands=commands)


def _open_log(path: Path, as_of: AsOf | None) -> AclReader:
    from authorizerd.cli.offline import SnapshotAcls, read_snapshot

    return SnapshotAcls(read_snapshot(path, as_of))


def run_acl_command(
    words: Sequence[str],
    terminal: Terminal,
    *,
    open_log: OpenLog = _open_log,
    open_server: OpenServer | None = None,
    commands: Mapping[str, str] = _NO_COMMANDS,
) -> int:
    """Run ``acls`` with the words that follow it, and return its exit code.

    Args:
        open_log: reads the ACLs of a log.
        open_server: connects to a server; None for a Kafka cluster.
        commands: the help of each command that may follow ``acls`` instead of flags.

    Raises whatever ``open_log`` and ``read_profile`` raise.
    """
    try:
        given = arguments.parse_arguments(words)
        # As kafka-acls does: help goes to standard error, with exit code 1.
        if not words or given.has("help"):
            terminal.complain(f"{arguments.HELP}\n{arguments.help_text(commands)}")
            return EXIT_FAULT
        if given.has("version"):
            from authorizerd.daemon.telemetry.build import describe_version

            terminal.tell(f"{describe_version()}\n")
            return 0
        given = _add_profile(given)
        arguments.check_arguments(given)
        _warn_of_words(given, terminal)
        if given.has("log-dir"):
            _list_log(given, terminal, open_log)
        else:
            # Kafka's message definitions take longer to load than everything else of the command.
            from authorizerd.cli.acls.remote import execute_remotely

            execute_remotely(given, terminal, open_server)
    except UsageError as error:
        see = SEE_REMOVE if {"--remove", "--principal"} <= set(words) else SEE_HELP
        terminal.complain(f"{error}\n{see}\n")
        return EXIT_FAULT
    except KafkaAclsError as error:
        terminal.tell(str(error))
        if error.advice:
            terminal.complain(f"authorizerd: {error.advice}")
        return EXIT_FAULT
    return 0


def _warn_of_words(given: arguments.Arguments, terminal: Terminal) -> None:
    """Warn about words that kafka-acls ignores, and a name that the shell may have inserted."""
    flags = (*RESOURCE_FLAGS, "allow-host", "deny-host")
    names = [name for flag in flags for name in given.values(flag)]
    warning = find_expanded(names)
    if given.ignored:
        shown = " ".join(map(repr, given.ignored[:_IGNORED_SHOWN]))
        more = ", and more" * (len(given.ignored) > _IGNORED_SHOWN)
        warning = (
            f"these words belong to no flag, and are ignored: {shown}{more}; quote * and values "
            "that contain spaces"
        )
    if warning is not None:
        terminal.complain(f"authorizerd: warning: {escape_unprintable(warning)}\n")


def _add_profile(given: arguments.Arguments) -> arguments.Arguments:
    """Return the flags; if none names a server or a log, add the profile's."""
    if any(map(given.has, _PLACES)):
        return given
    profile = read_profile()
    if profile is None:
        return given
    flag = "bootstrap-server" if profile.key == SERVERS else "bootstrap-controller"
    return given.with_values({flag: [profile.servers], "command-config": [str(profile.path)]})


def _list_log(given: arguments.Arguments, terminal: Terminal, open_log: OpenLog) -> None:
    path, moment, plan = given.value("log-dir"), given.value("as-of"), make_plan(given)
    assert path is not None
    assert isinstance(plan, Listing)
    try:
        as_of = None if moment is None else parse_as_of(moment)
    except InvalidAsOfError as error:
        raise UsageError(f"--as-of: {error}") from None
    listing = execute_listing(plan, open_log(Path(path), as_of), terminal)
    # Reading a log never waits, so it needs no event loop: loading trio takes longer than the rest.
    try:
        listing.send(None)
    except StopIteration:
        return
    raise AssertionError("the reader of a log waited")
