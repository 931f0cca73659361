"""A blocking Kafka client of one connection, for requests that admin clients do not send."""

from ssl import SSLContext
from types import SimpleNamespace
from typing import Any

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
from authorizerd.protocol.kafka.acls import FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.client_connection import KafkaClientConnection
from authorizerd.protocol.kafka.error_codes import ApiError
from tests.support.certificates import connect_tls
from tests.support.daemon_process import SECONDS_MAX, connect
from tests.support.kio_codec import decode_response, encode_request

RESPONSE_BYTES_MAX = 1 << 30
EVERY_ACL = AclFilter()


class KafkaConnection:
    """Connect to ``address``, and log in with PLAIN if there is a ``user``.

    Args:
        context: for a listener with TLS.
        client_id: the id in the header of each request.
        seconds_max: time limit of each call.
    """

    def __init__(
        self,
        address: str,
        user: str | None = None,
        password: str = "",
        context: SSLContext | None = None,
        client_id: str = "tests",
        seconds_max: float = SECONDS_MAX,
    ) -> None:
        self.socket = (
            connect(address, seconds_max)
            if context is None
            else connect_tls(address, context, seconds_max)
        )
        self._connection = KafkaClientConnection(client_id, RESPONSE_BYTES_MAX)
        try:
            if user is not None:
                assert self.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
                token = f"\0{user}\0{password}".encode()
                assert self.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token).error_code == 0
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.socket.close()

    def ask(self, api_key: ApiKey, version: int, **fields: object) -> Any:  # noqa: ANN401
        body = finish(encode_request(api_key, version, SimpleNamespace(**fields)))
        return finish(decode_response(api_key, version, self.ask_raw(api_key, version, body)))

    def ask_raw(self, api_key: ApiKey, version: int, body: bytes) -> bytes | bytearray:
        self.send(api_key, version, body)
        return self.receive()

    def send(self, api_key: ApiKey, version: int, body: bytes) -> None:
        self.socket.sendall(self._connection.frame_request(api_key, version, body))

    def receive(self) -> bytes | bytearray:
        """Return the next response body, or raise ConnectionResetError at the connection's end."""
        while (response := self._connection.next_response()) is None:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError("the daemon has closed the connection")
            self._connection.receive_data(data)
        return response.body

    def create(self, *acls: Acl, version: int = 3) -> list[ApiError | None]:
        body = encode_create_acls_request(version, acls)
        return decode_create_acls_response(version, self.ask_raw(ApiKey.CREATE_ACLS, version, body))

    def describe(self, version: int = 3, wanted: AclFilter = EVERY_ACL) -> list[Acl] | ApiError:
        body = encode_describe_acls_request(version, wanted)
        return decode_describe_acls_response(
            version, self.ask_raw(ApiKey.DESCRIBE_ACLS, version, body)
        )

    def delete(self, *filters: AclFilter, version: int = 3) -> list[FilterResult]:
        body = encode_delete_acls_request(version, filters)
        return decode_delete_acls_response(version, self.ask_raw(ApiKey.DELETE_ACLS, version, body))

    def delete_name(self, name: str) -> int:
        """Delete the ACLs on resources of this name; return how many there were."""
        [result] = self.delete(AclFilter(resource_name=name))
        assert result.error is None
        return len(result.matches)

    def metadata(self, *topics: str, version: int = 12) -> Any:  # noqa: ANN401 - an entity
        """Ask about ``topics``, or about every topic if none is named."""
        named = [SimpleNamespace(topic_id=None, name=topic) for topic in topics]
        return self.ask(
            ApiKey.METADATA,
            version,
            topics=named or None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
            include_cluster_authorized_operations=False,
        )
