"""``authorizerd acls``: a replacement for kafka-acls, with the same output and exit codes.

The order of lines is also the same wherever kafka-acls defines one.

Five things differ on purpose:

- If standard input is not a terminal, kafka-acls fails at its first question; this command reads
  the answers from it.
- Nothing is logged: a failed connection that is retried prints one line on standard error.
- ``--log-dir`` lists the ACLs of a log, without a server.
- Invalid flags print a line that names ``--help``, not the whole help.
- If no server accepts a connection, or the security protocol, the log-in or a certificate is wrong,
  the command ends at once with advice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final, TypeAlias

import trio

from authorizerd.cli.acls.admin import KafkaAclAdmin
from authorizerd.cli.acls.arguments import (
    HELP,
    Arguments,
    check_arguments,
    help_text,
    parse_arguments,
)
from authorizerd.cli.acls.connection_settings import read_settings
from authorizerd.cli.acls.errors import CommandError, UsageError, configuration_error
from authorizerd.cli.acls.plan import Listing, make_plan
from authorizerd.cli.acls.runner import AclAdmin, AclReader, Terminal, execute, execute_listing
from authorizerd.cli.acls.security import open_context
from authorizerd.kafka_client.client import ClientSettings, KafkaClient

EXIT_FAULT: Final = 1
EXIT_INTERRUPTED: Final = 130
SEE_HELP: Final = "Run 'authorizerd acls --help' for the flags."

OpenServer: TypeAlias = Callable[
    [ClientSettings, Callable[[str], None]], AbstractAsyncContextManager[AclAdmin]
]


@asynccontextmanager
async def open_kafka(
    settings: ClientSettings, warn: Callable[[str], None]
) -> AsyncIterator[AclAdmin]:
    """Open a connection to a Kafka cluster; nothing is sent before the first request.

    Raises:
        CommandError: no host name can be resolved, or a keystore or truststore cannot be used.
    """
    context = None if settings.tls is None else open_context(settings.tls)
    async with KafkaClient(settings, warn, context=context) as client:
        if not await client.can_resolve():
            raise configuration_error("No resolvable bootstrap urls given in bootstrap.servers")
        yield KafkaAclAdmin(client)


def run_acl_command(
    words: Sequence[str],
    terminal: Terminal,
    *,
    open_log: Callable[[Path], AclReader],
    open_server: OpenServer = open_kafka,
) -> int:
    """Run ``acls`` with the words that follow it, and return its exit code.

    Raises whatever ``open_log`` raises.
    """
    try:
        given = parse_arguments(words)
        # As kafka-acls does: help goes to standard error, with exit code 1.
        if not words or given.has("help"):
            terminal.complain(f"{HELP}\n{help_text()}")
            return EXIT_FAULT
        if given.has("version"):
            terminal.tell(f"{version('authorizerd')}\n")
            return 0
        check_arguments(given)
        if given.has("log-dir"):
            _list_log(given, terminal, open_log)
        else:
            trio.run(_execute_remotely, given, terminal, read_settings(given), open_server)
    except UsageError as error:
        terminal.complain(f"{error}\n{SEE_HELP}\n")
        return EXIT_FAULT
    except CommandError as error:
        terminal.tell(str(error))
        if error.advice:
            terminal.complain(f"authorizerd: {error.advice}")
        return EXIT_FAULT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def _list_log(given: Arguments, terminal: Terminal, open_log: Callable[[Path], AclReader]) -> None:
    path, plan = given.value("log-dir"), make_plan(given)
    assert path is not None
    assert isinstance(plan, Listing)
    trio.run(execute_listing, plan, open_log(Path(path)), terminal)


async def _execute_remotely(
    given: Arguments, terminal: Terminal, settings: ClientSettings, open_server: OpenServer
) -> None:
    def warn(text: str) -> None:
        terminal.complain(f"authorizerd: {text}\n")

    # As in kafka-acls, create the client before reading the other flags, so that its errors come
    # first.
    async with open_server(settings, warn) as admin:
        await execute(make_plan(given), admin, terminal)
