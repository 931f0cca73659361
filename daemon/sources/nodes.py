"""Connections to the nodes of the followed cluster: TLS, authentication, and why they fail.

**Invariant:** no password is sent to a node whose certificate is not verified, if the security
protocol has TLS. No error contains a password.

Source: Kafka 4.3 ChannelBuilders; KIP-368 for the end of a session.
"""

from __future__ import annotations

import logging
import os
import ssl
from typing import Final

from authorizerd.config.follow.settings import FollowSettings
from authorizerd.config.tls import TlsSettings
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.daemon.sources.remedies import remedy
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Node
from authorizerd.kafka_client.errors import (
    RequestFailedError,
    Stage,
    UnservedError,
    UnusableNodeError,
)
from authorizerd.kafka_client.log_in import new_credentials, open_node, requires_log_in
from authorizerd.kafka_client.mismatch import find_mismatch, log_in_required
from authorizerd.kafka_client.tls_stream import TlsOpener
from authorizerd.kafka_client.transport import OpenStream, open_tcp
from authorizerd.tls.context import new_client_context
from authorizerd.tls.errors import StoreError
from authorizerd.tls.material import read_material

_logger = logging.getLogger("authorizerd")

_Stamp = tuple[tuple[int, int, int] | None, ...]


class NodeOpener:
    """Open connections to nodes with the settings of the source.

    Args:
        open_tcp: opens the TCP connections.
    """

    def __init__(self, settings: FollowSettings, open_tcp: OpenStream = open_tcp) -> None:
        self._kind: Final = settings.kind
        self._client_id: Final = settings.client_id
        self._open_tcp: Final = open_tcp
        self._contexts: Final = None if settings.tls is None else _Contexts(settings.tls)
        self._credentials: Final = new_credentials(settings.log_in)

    async def open(self, host: str, port: int) -> Node:
        """Connect to a node, and log in. If cancelled, the connection is closed.

        The node is closed with ``aclose``, and replaced at its ``renewal_time``.

        Raises:
            UnusableNodeError: the credentials, a certificate or the security protocol do not match.
            ConnectionFailedError: the node cannot be reached, or did not answer in time.
        """
        address = Address(host, port)
        try:
            open_stream = await self._stream_opener()
            try:
                node = await open_node(address, self._credentials, self._client_id, open_stream)
            except UnservedError as error:
                raise await self._explain(error, open_stream) from error
            if self._credentials is None:
                await self._check_log_in(node)
        except RequestFailedError as error:
            raise self._unusable(address, error) from error
        except StoreError as error:
            raise UnusableNodeError(f"{address}: {error}", None) from error
        return node

    async def _stream_opener(self) -> OpenStream:
        if self._contexts is None:
            return self._open_tcp
        context = await run_in_thread(self._contexts.load)
        opener = TlsOpener(context, self._open_tcp, has_certificate=self._contexts.has_certificate)
        return opener.open

    async def _explain(self, error: UnservedError, open_stream: OpenStream) -> Exception:
        """Return the error for a listener that expects another security protocol, or ``error``."""
        if error.stage is Stage.REFUSED:
            return error
        found = await find_mismatch(
            error,
            has_tls=self._contexts is not None,
            has_credentials=self._credentials is not None,
            open_tcp=self._open_tcp,
            open_stream=open_stream,
        )
        return found or error

    async def _check_log_in(self, node: Node) -> None:
        """Raise RequestFailedError if the node requires authentication.

        Otherwise the node would close the connection at the first request without giving a reason.
        """
        try:
            is_required = await requires_log_in(node)
        except RequestFailedError:
            return  # it does not serve SaslHandshake
        except BaseException:
            await node.aclose()
            raise
        if is_required:
            await node.aclose()
            raise log_in_required(node.address, has_tls=self._contexts is not None)

    def _unusable(self, address: Address, error: RequestFailedError) -> UnusableNodeError:
        place = f"{address}: "
        text = error.error.message or ""
        if not text.startswith(place):
            text = f"{place}{error}"
        advice = remedy(self._kind, error.cause)
        return UnusableNodeError(f"{text}; {advice}" if advice else text, error.cause)


class _Contexts:
    """Caches OpenSSL's context for the settings, and rebuilds it when the stores have changed."""

    def __init__(self, settings: TlsSettings) -> None:
        self.has_certificate: Final = settings.keystore is not None
        self._settings: Final = settings
        self._context: ssl.SSLContext | None = None
        self._stamp: _Stamp | None = None

    def load(self) -> ssl.SSLContext:
        """Return the context. This reads files, and takes milliseconds of CPU time.

        If changed stores are unusable, the previous context stays.

        Raises:
            StoreError: the stores could not be used even once.
        """
        stamp = self._stores_stamp()
        if stamp != self._stamp:
            try:
                self._context = new_client_context(self._settings, read_material(self._settings))
            except StoreError as error:
                if self._context is None:
                    raise
                _logger.warning("%s; connections keep the previous certificates", error)
            self._stamp = stamp
        assert self._context is not None, "the first stamp is None"
        return self._context

    def _stores_stamp(self) -> _Stamp:
        """Return a value that changes if a store's file is replaced or written."""
        stores = (self._settings.keystore, self._settings.truststore)
        return tuple(_file_stamp(store.location) for store in stores if store and store.location)


def _file_stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
