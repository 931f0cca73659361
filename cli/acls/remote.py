"""Carry out ``authorizerd acls`` on a server.

The module ``command`` does not import this one, because Kafka's message definitions take longer to
load than everything else of the command.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import trio

from authorizerd.cli.acls.admin import KafkaAclAdmin
from authorizerd.cli.acls.arguments import Arguments
from authorizerd.cli.acls.connection_settings import read_settings
from authorizerd.cli.acls.errors import configuration_error
from authorizerd.cli.acls.plan import make_plan
from authorizerd.cli.acls.runner import AclAdmin, Terminal, execute
from authorizerd.cli.acls.security import open_context
from authorizerd.kafka_client.client import ClientSettings, KafkaClient

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


def execute_remotely(
    given: Arguments, terminal: Terminal, *, open_server: OpenServer = open_kafka
) -> None:
    """Carry out the flags on the server that they name.

    Raises:
        CommandError: the flags or the settings are invalid, or a request fails.
    """
    trio.run(_execute, given, terminal, read_settings(given), open_server)


async def _execute(
    given: Arguments, terminal: Terminal, settings: ClientSettings, open_server: OpenServer
) -> None:
    def warn(text: str) -> None:
        terminal.complain(f"authorizerd: {text}\n")

    # As in kafka-acls, create the client before reading the other flags, so that its errors come
    # first.
    async with open_server(settings, warn) as admin:
        await execute(make_plan(given), admin, terminal)
