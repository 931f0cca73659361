"""The client's end of a connection, against the server's."""

import pytest
from hypothesis import settings

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.client_connection import KafkaClientConnection, KafkaResponse
from authorizerd.protocol.kafka.server_connection import (
    KafkaRequest,
    KafkaServerConnection,
    frame_response,
)

some_examples = settings(max_examples=40)
BYTES_MAX = 1000
SERVED = [(key, version) for key, api in APIS.items() for version in api.versions]


def received(connection: KafkaServerConnection, data: bytes) -> KafkaRequest:
    connection.receive_data(data)
    request = connection.next_request()
    assert request is not None
    return request


@pytest.mark.parametrize("client_id", [None, "", "authorizerd-ü"])
def test_request_and_response_arrive(client_id: str | None) -> None:
    """This holds for every API and version, also byte by byte."""
    for api_key, version in SERVED:
        check_request_and_response(api_key, version, client_id)


def check_request_and_response(api_key: ApiKey, version: int, client_id: str | None) -> None:
    client, server = KafkaClientConnection(client_id, BYTES_MAX), KafkaServerConnection(BYTES_MAX)
    request = received(server, client.frame_request(api_key, version, b"body"))
    assert request == KafkaRequest(
        api_key=api_key, api_version=version, correlation_id=0, client_id=client_id, body=b"body"
    )
    [answer] = frame_response(request, [b"answer"])
    for at in range(len(answer)):
        assert client.next_response() is None
        client.receive_data(answer[at : at + 1])
    assert client.next_response() == KafkaResponse(
        api_key=api_key, api_version=version, correlation_id=0, body=b"answer"
    )


def test_responses_match_by_correlation_id_in_any_order() -> None:
    client, server = KafkaClientConnection(None, BYTES_MAX), KafkaServerConnection(BYTES_MAX)
    first = received(server, client.frame_request(ApiKey.DESCRIBE_ACLS, 1, b""))
    second = received(server, client.frame_request(ApiKey.CREATE_ACLS, 3, b""))
    assert (first.correlation_id, second.correlation_id) == (0, 1)
    for chunk in (*frame_response(second, [b"2"]), *frame_response(first, [b"1"])):
        client.receive_data(chunk)
    responses = [client.next_response(), client.next_response()]
    assert [(each.api_key, each.body) for each in responses if each is not None] == [
        (ApiKey.CREATE_ACLS, b"2"),
        (ApiKey.DESCRIBE_ACLS, b"1"),
    ]


@pytest.mark.parametrize("content", ["00000005", "ffffffff", "0000", "", "00000000 05 01"])
def test_invalid_response_is_rejected(content: str) -> None:
    """A response with an incomplete header is rejected as well."""
    client = KafkaClientConnection(None, BYTES_MAX)
    client.frame_request(ApiKey.DESCRIBE_ACLS, 3, b"")
    client.receive_data(frame(bytes.fromhex(content)))
    with pytest.raises(DecodeError):
        client.next_response()
    client.receive_data(frame(bytes.fromhex("00000000 00")))
    assert client.next_response() is None


def test_second_response_to_a_request_is_rejected() -> None:
    client = KafkaClientConnection(None, BYTES_MAX)
    client.frame_request(ApiKey.DESCRIBE_ACLS, 1, b"")
    client.receive_data(frame(bytes(4)) * 2)
    assert client.next_response() is not None
    with pytest.raises(DecodeError, match="no request has correlation id 0"):
        client.next_response()


def test_too_large_response_is_rejected_by_its_size() -> None:
    client = KafkaClientConnection(None, BYTES_MAX)
    client.receive_data(bytes.fromhex("000003e9"))
    with pytest.raises(DecodeError, match="expected a frame size from 0 to 1000"):
        client.next_response()
