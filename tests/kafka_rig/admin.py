"""A fast admin client without a JVM: ACLs, and the state of the quorum.

It blocks, sends each request once, and never retries: after a cut connection, its caller does not
know whether the request was applied.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_delete_acls_response,
    decode_describe_acls_response,
    encode_create_acls_request,
    encode_delete_acls_request,
    encode_describe_acls_request,
)
from authorizerd.protocol.kafka.api import ApiKey, RequestedKey
from authorizerd.protocol.kafka.client_connection import KafkaClientConnection
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.messages import decode_response, encode_request
from authorizerd.protocol.kafka.quorum_messages import (
    DescribeQuorumAnswer,
    DescribeQuorumRequest,
    RequestedPartition,
    RequestedQuorumTopic,
)
from authorizerd.protocol.kafka.requests import (
    MetadataRequest,
    RequestedTopic,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from authorizerd.protocol.kafka.responses import MetadataAnswer, SaslAuthenticateAnswer
from tests.kafka_rig.properties import HOST
from tests.kafka_rig.rig import RigError

METADATA_TOPIC: Final = "__cluster_metadata"
SECONDS_MAX: Final = 20.0

_ACLS_VERSION: Final = 3
_METADATA_VERSION: Final = 12
_QUORUM_VERSION: Final = 2
_MAY_DESCRIBE: Final[dict[int, bool]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: True,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: False,
}
_RECEIVE_BYTES: Final = 1 << 18
_RESPONSE_BYTES_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The leader's view. ``high_watermark`` is exclusive, as in Kafka.

    ``voters`` and ``observers`` have the log's end offset of each node by its id.
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: Mapping[int, int]
    observers: Mapping[int, int]


class NotControllerError(RigError):
    """The node is not the active controller; it has done nothing."""


class Admin:
    """A connection to one broker or controller, logged in with SASL PLAIN.

    Every method raises OSError or RigError if the connection breaks, is refused, or an answer takes
    longer than 20 s.

    Args:
        client_host: the client's address, which the node sees; any of 127.0.0.0/8.
    """

    def __init__(self, address: str, user: str, password: str, client_host: str = HOST) -> None:
        self._address = address
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), SECONDS_MAX, (client_host, 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = KafkaClientConnection("rig", _RESPONSE_BYTES_MAX)
        try:
            self._log_in(user, password)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def create(self, acls: Sequence[Acl]) -> None:
        """Create ACLs with one request.

        Raises:
            RigError: an ACL was refused; the text has the first reason.
        """
        body = encode_create_acls_request(_ACLS_VERSION, acls)
        answer = self.exchange(ApiKey.CREATE_ACLS, _ACLS_VERSION, body)
        for error in decode_create_acls_response(_ACLS_VERSION, answer):
            self._demand(error)

    def delete(self, filters: Sequence[AclFilter]) -> list[Acl]:
        """Delete the matching ACLs with one request; return them.

        Raises:
            RigError: a filter was refused.
        """
        body = encode_delete_acls_request(_ACLS_VERSION, filters)
        answer = self.exchange(ApiKey.DELETE_ACLS, _ACLS_VERSION, body)
        deleted: list[Acl] = []
        for result in decode_delete_acls_response(_ACLS_VERSION, answer):
            self._demand(result.error)
            for match in result.matches:
                self._demand(match.error)
                deleted.append(match.acl)
        return deleted

    def describe(self) -> list[Acl]:
        """Return every ACL of the node's own image; a controller refuses."""
        body = encode_describe_acls_request(_ACLS_VERSION, AclFilter())
        answer = self.exchange(ApiKey.DESCRIBE_ACLS, _ACLS_VERSION, body)
        described = decode_describe_acls_response(_ACLS_VERSION, answer)
        if isinstance(described, ApiError):
            raise RigError(f"{self._address}: {described}")
        return described

    def may_describe(self, *topics: str) -> set[str]:
        """Return those of the topics that the user may describe; none of them exists.

        Raises:
            RigError: the node gave another answer.
        """
        asked = MetadataRequest(
            topics=[RequestedTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
        )
        answer: MetadataAnswer = self._ask(ApiKey.METADATA, _METADATA_VERSION, asked)
        codes = {str(each.name): each.error_code for each in answer.topics}
        for code in codes.values():
            if code not in _MAY_DESCRIBE:
                raise RigError(f"{self._address}: {ApiError(code)}")
        return {topic for topic in topics if _MAY_DESCRIBE[codes[topic]]}

    def describe_quorum(self) -> Quorum:
        """Return the state of the quorum.

        Raises:
            RigError: the node is not the leader, or it refused.
        """
        topic = RequestedQuorumTopic(METADATA_TOPIC, [RequestedPartition(0)])
        asked = DescribeQuorumRequest(topics=[topic])
        answer: DescribeQuorumAnswer = self._ask(ApiKey.DESCRIBE_QUORUM, _QUORUM_VERSION, asked)
        if answer.error_code:
            raise RigError(f"{self._address}: {ApiError(answer.error_code)}")
        described = next(iter(next(iter(answer.topics)).partitions))
        if described.error_code:
            raise RigError(f"{self._address}: {ApiError(described.error_code)}")
        return Quorum(
            leader_id=described.leader_id,
            leader_epoch=described.leader_epoch,
            high_watermark=described.high_watermark,
            voters={each.replica_id: each.log_end_offset for each in described.current_voters},
            observers={each.replica_id: each.log_end_offset for each in described.observers},
        )

    def exchange(self, api_key: RequestedKey, version: int, body: bytes) -> bytes | bytearray:
        """Send the body of any request; return that of the answer."""
        self._socket.sendall(self._connection.frame_request(api_key, version, body))
        while (response := self._connection.next_response()) is None:
            data = self._socket.recv(_RECEIVE_BYTES)
            if not data:
                raise RigError(f"{self._address}: the node closed the connection")
            self._connection.receive_data(data)
        return response.body

    def _log_in(self, user: str, password: str) -> None:
        self._ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        token = f"\0{user}\0{password}".encode()
        asked = SaslAuthenticateRequest(auth_bytes=token)
        answer: SaslAuthenticateAnswer = self._ask(ApiKey.SASL_AUTHENTICATE, 2, asked)
        if answer.error_code:
            raise RigError(f"{self._address}: {ApiError(answer.error_code, answer.error_message)}")

    def _demand(self, error: ApiError | None) -> None:
        if error is not None:
            kind = NotControllerError if error.code == ErrorCode.NOT_CONTROLLER else RigError
            raise kind(f"{self._address}: {error}")

    def _ask(self, api_key: ApiKey, version: int, asked: object) -> Any:  # noqa: ANN401
        body = finish(encode_request(api_key, version, asked))
        return finish(decode_response(api_key, version, self.exchange(api_key, version, body)))
