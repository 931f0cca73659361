"""Choose the handler of each Kafka request, once the connection's principal is known.

**Invariant:** until the ACLs are loaded, callers other than super users get AUTHORIZER_NOT_READY,
in the form that each API defines, and no handler sees the request. Requests of APIs that need a
right are decoded only after that right is checked.

Source: KIP-504, KIP-801; Kafka 4.3 KafkaApis.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from authorizerd.acl.errors import NotReadyError
from authorizerd.acl.model import Operation
from authorizerd.actors.authorizer import Authentication, Authorizer, RequestContext
from authorizerd.actors.published import View
from authorizerd.actors.purgatory import Purgatory
from authorizerd.config.bounds import SEND_BYTES
from authorizerd.config.values import SecurityProtocol
from authorizerd.daemon.kafka.acls import AclHandlers
from authorizerd.daemon.kafka.cluster import Cluster, ClusterHandlers
from authorizerd.daemon.kafka.cluster_updates import ClusterUpdates
from authorizerd.daemon.kafka.codec import (
    Answer,
    Waited,
    free_body,
    read_body,
    refuse_all,
    write_body,
)
from authorizerd.daemon.kafka.configs import ConfigHandlers
from authorizerd.daemon.kafka.envelope import EnvelopeHandler
from authorizerd.daemon.kafka.groups import GroupHandlers
from authorizerd.daemon.kafka.permissions import NOT_AUTHORIZED, UNEXPLAINED, RefusedError, Rights
from authorizerd.daemon.kafka.quorum import Leadership, QuorumHandler
from authorizerd.daemon.kafka.quotas import QuotaHandlers
from authorizerd.daemon.kafka.request_latency import RequestTimes
from authorizerd.daemon.kafka.scram_credentials import ScramCredentialHandlers
from authorizerd.daemon.settings import Settings
from authorizerd.image.cluster import ClusterImage
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.chunked_output import Chunk
from authorizerd.protocol.kafka.error_codes import ApiError
from authorizerd.protocol.kafka.messages import load_definitions
from authorizerd.protocol.kafka.server_connection import KafkaRequest

load_definitions()


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The client at the other end of a connection."""

    listener_name: str
    security_protocol: SecurityProtocol
    principal: str
    host: str
    authentication: Authentication = Authentication.NONE


class _Handler(NamedTuple):
    """A function that returns the answer to a request, or raises RefusedError.

    ``needs`` is the right on the cluster that is checked before the request is decoded, so that
    callers without it cause little work. ``refusal`` answers them.
    """

    answer: Callable[[Any, RequestContext], Awaitable[object]]
    needs: Operation | None = None
    refusal: ApiError = NOT_AUTHORIZED


class KafkaHandlers:
    """Answer the requests of authenticated clients, each by the handler of its API."""

    def __init__(
        self,
        *,
        authorizer: Authorizer,
        image: View[ClusterImage],
        purgatory: Purgatory,
        cluster: Cluster,
        leadership: Callable[[], Leadership | None],
        updates: ClusterUpdates,
        settings: Settings,
        times: RequestTimes,
    ) -> None:
        self._authorizer = authorizer
        self._rights = Rights(authorizer)
        self._times = times
        acls = AclHandlers(authorizer, purgatory)
        whole = ClusterHandlers(authorizer, image, cluster)
        groups = GroupHandlers(authorizer)
        configs = ConfigHandlers(authorizer, image, updates, settings)
        quotas = QuotaHandlers(authorizer)
        scram = ScramCredentialHandlers(image, updates)
        quorum = QuorumHandler(authorizer, cluster, leadership)
        # The inner request must pass the same readiness check as any other.
        self._envelopes = EnvelopeHandler(authorizer, self._handle)
        self._handlers: Final[Mapping[ApiKey, _Handler]] = {
            ApiKey.METADATA: _Handler(whole.answer_metadata),
            ApiKey.FIND_COORDINATOR: _Handler(whole.find_coordinator),
            ApiKey.DESCRIBE_GROUPS: _Handler(groups.describe),
            ApiKey.LIST_GROUPS: _Handler(groups.list_all),
            ApiKey.DESCRIBE_CLUSTER: _Handler(whole.describe_cluster),
            ApiKey.DESCRIBE_ACLS: _Handler(acls.describe, Operation.DESCRIBE),
            ApiKey.CREATE_ACLS: _Handler(acls.create, Operation.ALTER),
            ApiKey.DELETE_ACLS: _Handler(acls.delete, Operation.ALTER),
            ApiKey.DESCRIBE_CONFIGS: _Handler(configs.describe),
            ApiKey.ALTER_CONFIGS: _Handler(configs.alter),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: _Handler(configs.alter),
            ApiKey.DESCRIBE_CLIENT_QUOTAS: _Handler(quotas.describe),
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _Handler(
                scram.describe, Operation.DESCRIBE, UNEXPLAINED
            ),
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _Handler(scram.alter, Operation.ALTER),
            ApiKey.DESCRIBE_QUORUM: _Handler(quorum.describe),
        }

    async def answer(self, request: KafkaRequest, session: Session) -> list[Chunk]:
        """Return the body of the response, in chunks.

        Raises:
            DecodeError: the request is invalid. As in Kafka, the connection is then closed.
        """
        context = RequestContext(
            principal=session.principal,
            host=session.host,
            request_name=APIS[request.api_key].name,
            listener_name=session.listener_name,
            client_id=request.client_id,
            correlation_id=request.correlation_id,
            security_protocol=session.security_protocol,
            request_type=int(request.api_key),
            request_version=request.api_version,
            authentication=session.authentication,
        )
        started = time.perf_counter()
        remote_s, name = 0.0, context.request_name
        is_envelope = request.api_key is ApiKey.ENVELOPE
        try:
            if is_envelope:
                body, remote_s, name = await self._open_envelope(request, context)
            else:
                body, remote_s = await self._handle(request, context)
        except NotReadyError:  # refuse the whole request: nothing has been sent yet
            body = await refuse_all(request, self._rights.not_ready_error)
        total_s = time.perf_counter() - started
        self._times.observe(name, local_s=total_s - remote_s, remote_s=remote_s)
        return body

    async def _open_envelope(
        self, request: KafkaRequest, context: RequestContext
    ) -> tuple[list[Chunk], float, str]:
        self._check_readiness(context)
        return await self._envelopes.answer(request, context)

    async def _handle(
        self, request: KafkaRequest, context: RequestContext, asked: msgspec.Struct | None = None
    ) -> Answer:
        """Answer a request, or the inner one of an Envelope, which is decoded.

        Raises:
            NotReadyError: the answer, or one item of it, would be AUTHORIZER_NOT_READY.
        """
        self._check_readiness(context)
        handler, seconds = self._handlers[request.api_key], 0.0
        try:
            if handler.needs is not None:
                self._rights.require(context, handler.needs, handler.refusal)
            if asked is None:
                asked = await read_body(request)
            try:
                answer = await handler.answer(asked, context)
                if isinstance(answer, Waited):
                    answer, seconds = answer
                return await write_body(request, answer), seconds
            finally:
                if len(request.body) > SEND_BYTES:
                    await free_body(asked)
        except RefusedError as refused:
            return await refuse_all(request, refused.error), seconds

    def _check_readiness(self, context: RequestContext) -> None:
        if not self._authorizer.serves(context.principal):
            raise NotReadyError
