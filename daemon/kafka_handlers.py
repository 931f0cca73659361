"""Which handler answers each Kafka request, once its connection knows who asks.

Law: before the ACLs are loaded whoever is no super user gets AUTHORIZER_NOT_READY, in each API's
own shape, and no handler sees the request.

Source: KIP-504, KIP-801; Kafka 4.3 KafkaApis.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from acl.errors import NotReadyError
from actors.authorizer import Authorizer, RequestContext
from actors.purgatory import Purgatory
from daemon.kafka_acl_handlers import AclHandlers
from daemon.kafka_answers import Cluster
from daemon.kafka_bodies import Answer
from daemon.kafka_cluster_handlers import ClusterHandlers
from daemon.request_times import RequestTimes
from protocol.kafka_acl_responses import Piece
from protocol.kafka_api import APIS, ApiKey
from protocol.kafka_connection import KafkaRequest


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Who is at the other end of a connection."""

    listener_name: str
    principal: str
    host: str


class _Handler(NamedTuple):
    answer: Callable[[KafkaRequest, RequestContext], Awaitable[Answer]]
    refuse: Callable[[KafkaRequest], Awaitable[list[Piece]]]


class KafkaHandlers:
    def __init__(
        self,
        *,
        authorizer: Authorizer,
        purgatory: Purgatory,
        cluster: Cluster,
        times: RequestTimes,
    ) -> None:
        self._authorizer = authorizer
        self._times = times
        acls = AclHandlers(authorizer, purgatory)
        whole = ClusterHandlers(authorizer, cluster)
        self._handlers: Final[Mapping[ApiKey, _Handler]] = {
            ApiKey.METADATA: _Handler(whole.tell_metadata, whole.refuse_metadata),
            ApiKey.FIND_COORDINATOR: _Handler(
                whole.find_coordinator, whole.refuse_find_coordinator
            ),
            ApiKey.DESCRIBE_CLUSTER: _Handler(
                whole.describe_cluster, whole.refuse_describe_cluster
            ),
            ApiKey.DESCRIBE_ACLS: _Handler(acls.describe, acls.refuse_describe),
            ApiKey.CREATE_ACLS: _Handler(acls.create, acls.refuse_create),
            ApiKey.DELETE_ACLS: _Handler(acls.delete, acls.refuse_delete),
        }

    async def answer(self, request: KafkaRequest, session: Session) -> list[Piece]:
        """Return the body of the response, in pieces.

        Raises:
            DecodeError: what Kafka answers by closing the connection.
        """
        context = RequestContext(
            principal=session.principal,
            host=session.host,
            request_name=APIS[request.api_key].name,
            listener_name=session.listener_name,
            client_id=request.client_id,
            correlation_id=request.correlation_id,
        )
        handler = self._handlers[request.api_key]
        started = time.perf_counter()
        remote_s = 0.0
        try:
            if not self._authorizer.serves(session.principal):
                raise NotReadyError
            body, remote_s = await handler.answer(request, context)
        except NotReadyError:
            body = await handler.refuse(request)
        total_s = time.perf_counter() - started
        self._times.observe(context.request_name, local_s=total_s - remote_s, remote_s=remote_s)
        return body
