"""Envelope: a request that a broker forwards, handled as if the client had sent it here.

**Invariant:** CLUSTER_ACTION is checked before anything is decoded; from then on only the inner
principal's rights count. Errors of the inner request go into the inner answer. The outer answer
reports only faults of the Envelope itself, and AUTHORIZER_NOT_READY, so that the forwarder retries.
A request that does not exist in Kafka 4 gets UNSUPPORTED_VERSION.

Source: KIP-590, KIP-801; Kafka 4.3 EnvelopeUtils, ControllerApis.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from authorizerd.acl.model import Operation
from authorizerd.actors.authorizer import Authentication, Authorizer, RequestContext
from authorizerd.daemon.kafka.codec import Answer, free_body, open_forwarded, refuse_all
from authorizerd.daemon.kafka.permissions import Rights
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.chunked_output import Chunk
from authorizerd.protocol.kafka.envelope import (
    EnvelopeError,
    Forwarded,
    encode_envelope_response,
)
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.server_connection import KafkaRequest

Handle: TypeAlias = Callable[[KafkaRequest, RequestContext, msgspec.Struct], Awaitable[Answer]]
"""A function that answers the inner request, which is decoded.

It raises NotReadyError if the answer would be AUTHORIZER_NOT_READY.
"""

_logger = logging.getLogger(__name__)


class EnvelopeHandler:
    """Answer the request in an Envelope, for the principal that the Envelope names."""

    def __init__(self, authorizer: Authorizer, handle: Handle) -> None:
        self._rights = Rights(authorizer)
        self._handle = handle

    async def answer(
        self, request: KafkaRequest, context: RequestContext
    ) -> tuple[list[Chunk], float, str]:
        """Answer an Envelope with the answer to its inner request, or with an outer error.

        Return the answer, and the name of the API under which metrics count the request.
        As in Kafka, that is the API of the inner request, or Envelope if there is an outer error.

        Raises:
            DecodeError: the request is invalid. As in Kafka, the connection is then closed.
            NotReadyError: the ACLs are not loaded for the forwarder, or for the inner principal.
        """
        if not self._rights.may(context, Operation.CLUSTER_ACTION):
            return await _refusal(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        try:
            forwarded = await open_forwarded(request.body)
            try:
                body, remote_s = await self._answer_forwarded(forwarded, context)
            finally:
                await free_body(forwarded.asked)
        except EnvelopeError as error:
            _logger.info("%s: Envelope refused: %s", context.listener_name, error)
            return await _refusal(request, error.code)
        name = APIS[forwarded.request.api_key].name
        return encode_envelope_response(forwarded.request, body), remote_s, name

    async def _answer_forwarded(self, forwarded: Forwarded, context: RequestContext) -> Answer:
        inner = forwarded.request
        inner_context = msgspec.structs.replace(
            context,
            principal=forwarded.principal,
            host=forwarded.host,
            request_name=APIS[inner.api_key].name,
            client_id=inner.client_id,
            correlation_id=inner.correlation_id,
            request_type=int(inner.api_key),
            request_version=inner.api_version,
            authentication=Authentication.FORWARDED,
            requester=context,
        )
        return await self._handle(inner, inner_context, forwarded.asked)


async def _refusal(request: KafkaRequest, code: ErrorCode) -> tuple[list[Chunk], float, str]:
    return await refuse_all(request, ApiError(code)), 0.0, APIS[ApiKey.ENVELOPE].name
