"""Read and change ACLs on a Kafka server, for ``authorizerd acls``.

Source: KIP-140, KIP-290; Kafka 4.3 KafkaAdminClient.describeAcls, createAcls, deleteAcls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias, TypeVar

import trio

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.cli.acls.advice import advise
from authorizerd.cli.acls.arguments import Arguments
from authorizerd.cli.acls.connection_settings import open_context, read_settings
from authorizerd.cli.acls.errors import (
    KafkaAclsError,
    configuration_error,
    handshake_error,
    request_error,
)
from authorizerd.cli.acls.plan import make_plan
from authorizerd.cli.acls.runner import AclAdmin, Removed, Terminal, execute
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.kafka_client.connection import Call
from authorizerd.kafka_client.errors import HandshakeFailedError, RequestFailedError
from authorizerd.protocol.kafka import acl_client
from authorizerd.protocol.kafka.acls import FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError

T = TypeVar("T")


def creation_call(acls: Sequence[Acl]) -> Call[list[ApiError | None]]:
    """Return the call that creates ACLs. Its result has an error or None for each."""
    return Call(
        api_key=ApiKey.CREATE_ACLS,
        encode=lambda version: acl_client.encode_create_acls_request(version, acls),
        decode=acl_client.decode_create_acls_response,
    )


class KafkaAclAdmin:
    """Send requests to a server; raise the first error in an answer as a KafkaAclsError."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client

    async def describe(self, filter: AclFilter) -> list[Acl]:
        """Return the ACLs that ``filter`` matches."""
        call = Call(
            api_key=ApiKey.DESCRIBE_ACLS,
            encode=lambda version: acl_client.encode_describe_acls_request(version, filter),
            decode=acl_client.decode_describe_acls_response,
        )
        found = await self._request(
            call, "describeAcls", lambda found: [found] if isinstance(found, ApiError) else []
        )
        assert not isinstance(found, ApiError)
        return found

    async def create(self, acls: Sequence[Acl]) -> None:
        """Create ACLs; a rejected ACL does not prevent the others."""
        await self._request(
            creation_call(acls),
            "createAcls",
            lambda results: [error for error in results if error is not None],
        )

    async def delete(self, filters: Sequence[AclFilter]) -> Removed:
        """Delete the ACLs that any filter matches; a failed filter does not stop the others."""
        attempts = 0

        def encode(version: int) -> bytes:
            nonlocal attempts
            attempts += 1
            return acl_client.encode_delete_acls_request(version, filters)

        call = Call(
            api_key=ApiKey.DELETE_ACLS, encode=encode, decode=acl_client.decode_delete_acls_response
        )
        results = await self._request(call, "deleteAcls", _deletion_errors)
        # Each filter that matches an ACL reports it.
        acls = {match.acl for result in results for match in result.matches}
        return Removed(len(acls), is_certain=attempts == 1)

    async def _request(
        self, call: Call[T], name: str, errors: Callable[[T], Sequence[ApiError]]
    ) -> T:
        try:
            return await self._client.request(call, name=name, errors=errors)
        except RequestFailedError as error:
            raise _describe(error) from error


def _describe(error: RequestFailedError) -> KafkaAclsError:
    advice = advise(error)
    if isinstance(error, HandshakeFailedError):
        return handshake_error(error.text, advice, is_late=error.is_late)
    return request_error(error.error, advice=advice)


def _deletion_errors(results: Sequence[FilterResult]) -> list[ApiError]:
    return [
        error
        for result in results
        for error in (result.error, *(match.error for match in result.matches))
        if error is not None
    ]


OpenServer: TypeAlias = Callable[
    [ClientSettings, Callable[[str], None]], AbstractAsyncContextManager[AclAdmin]
]


@asynccontextmanager
async def open_kafka(
    settings: ClientSettings, warn: Callable[[str], None]
) -> AsyncIterator[AclAdmin]:
    """Open a connection to a Kafka cluster; nothing is sent before the first request."""
    context = None if settings.tls is None else open_context(settings.tls)
    async with KafkaClient(settings, warn, context=context) as client:
        if not await client.can_resolve():
            raise configuration_error("No resolvable bootstrap urls given in bootstrap.servers")
        yield KafkaAclAdmin(client)


def execute_remotely(
    given: Arguments, terminal: Terminal, open_server: OpenServer | None = None
) -> None:
    """Carry out the flags on the server that they name."""
    trio.run(_execute, given, terminal, read_settings(given), open_server or open_kafka)


async def _execute(
    given: Arguments, terminal: Terminal, settings: ClientSettings, open_server: OpenServer
) -> None:
    def warn(text: str) -> None:
        terminal.complain(f"authorizerd: {text}\n")

    # As in kafka-acls, create the client before reading the other flags, so that its errors are
    # reported first.
    async with open_server(settings, warn) as admin:
        await execute(make_plan(given), admin, terminal)
