"""The server's end of a connection. The brokers' behaviour was tested with Apache Kafka 4.3.1."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.server_connection import (
    KafkaRequest,
    KafkaServerConnection,
    frame_response,
    frame_token,
    unsupported_api_versions,
)

some_examples = settings(max_examples=40)
BYTES_MAX = 1000


def requests_of(chunks: list[bytes]) -> list[KafkaRequest]:
    connection = KafkaServerConnection(BYTES_MAX)
    requests: list[KafkaRequest] = []
    for chunk in chunks:
        connection.receive_data(chunk)
        while (request := connection.next_request()) is not None:
            requests.append(request)
    return requests


def the_request(content: str) -> KafkaRequest:
    [request] = requests_of([frame(bytes.fromhex(content))])
    return request


def refusal(content: str) -> DecodeError:
    connection = KafkaServerConnection(BYTES_MAX)
    connection.receive_data(frame(bytes.fromhex(content)))
    with pytest.raises(DecodeError) as refused:
        connection.next_request()
    connection.receive_data(frame(bytes.fromhex("0011 0001 00000007 ffff")))
    assert connection.next_request() is None, "nothing after it is read"
    return refused.value


def test_request_has_a_header_and_a_body() -> None:
    assert the_request("0011 0001 00000007 0002 6162 0005 504c41494e") == KafkaRequest(
        api_key=ApiKey.SASL_HANDSHAKE,
        api_version=1,
        correlation_id=7,
        client_id="ab",
        body=bytes.fromhex("0005 504c41494e"),
    )


@pytest.mark.parametrize("tags", ["00", "01 07 01 ff", "02 07 01 ff 01 00"])
def test_flexible_header_has_tags(tags: str) -> None:
    """Unknown ones are skipped, in any order, as by a broker."""
    request = the_request(f"001d 0002 ffffffff 0002 6162 {tags} 0102")
    assert (request.api_key, request.api_version) == (ApiKey.DESCRIBE_ACLS, 2)
    assert (request.correlation_id, request.client_id) == (-1, "ab")
    assert request.body == b"\1\2"


@pytest.mark.parametrize(
    ("client_id", "name"),
    [("ffff", None), ("fffe", None), ("0000", ""), ("0002 c3bc", "ü"), ("0001 ff", "�")],
)
def test_client_id_may_be_any_bytes(client_id: str, name: str | None) -> None:
    """A broker answered each of these."""
    assert the_request(f"0011 0001 00000007 {client_id} 0000").client_id == name


@st.composite
def written_requests(draw: st.DrawFn) -> tuple[bytes, KafkaRequest]:
    api_key = draw(st.sampled_from(ApiKey))
    version = draw(st.sampled_from(APIS[api_key].versions))
    request = KafkaRequest(
        api_key=api_key,
        api_version=version,
        correlation_id=draw(st.integers(-(2**31), 2**31 - 1)),
        client_id=draw(st.none() | st.text("aü", max_size=3)),
        body=draw(st.binary(max_size=30)),
    )
    client_id = None if request.client_id is None else request.client_id.encode()
    tags = draw(st.sampled_from([b"\0", b"\1\5\1a"])) if APIS[api_key].is_flexible(version) else b""
    content = (
        api_key.to_bytes(2, "big"),
        version.to_bytes(2, "big"),
        request.correlation_id.to_bytes(4, "big", signed=True),
        b"\xff\xff" if client_id is None else len(client_id).to_bytes(2, "big") + client_id,
        tags,
        bytes(request.body),
    )
    return frame(*content), request


@some_examples
@given(written=st.lists(written_requests(), max_size=4))
def test_requests_do_not_depend_on_the_split(written: list[tuple[bytes, KafkaRequest]]) -> None:
    data = b"".join(each for each, _ in written)
    expected = [request for _, request in written]
    assert requests_of([data]) == expected
    assert requests_of([data[at : at + 1] for at in range(len(data))]) == expected


@some_examples
@given(written=written_requests(), size=st.integers(0, 60))
def test_cut_header_is_rejected(written: tuple[bytes, KafkaRequest], size: int) -> None:
    data, request = written
    header_bytes = len(data) - 4 - len(request.body)
    content = data[4 : 4 + size]
    connection = KafkaServerConnection(BYTES_MAX)
    connection.receive_data(frame(content))
    if len(content) >= header_bytes:
        assert connection.next_request() is not None
    else:
        with pytest.raises(DecodeError) as refused:
            connection.next_request()
        assert 0 <= refused.value.position <= len(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "expected a request header, found 0 bytes"),
        ("001d 0001 00000007 00", "expected a request header, found 9 bytes"),
        ("03e7 0000 00000007 ffff", "API key 999 is not served"),
        ("ffff 0000 00000007 ffff", "API key -1 is not served"),
        ("0000 000d 00000007 ffff", "Produce is not served"),
        ("005d 0000 00000007 ffff", "StreamsGroupTopologyDescriptionUpdate is not served"),
        ("001d 0004 00000007 ffff 00", "DescribeAcls: expected version 0 to 3, found 4"),
        ("001d ffff 00000007 ffff", "DescribeAcls: expected version 0 to 3, found -1"),
        ("0011 0002 00000007 ffff", "SaslHandshake: expected version 0 to 1, found 2"),
        ("001d 0001 00000007 0003 6162", "client id: 3 bytes announced, 2 left"),
        ("001d 0002 00000007 ffff", "number of tagged fields: 1 bytes announced, 0 left"),
        ("001d 0002 00000007 ffff 65", "expected at most 100 tagged fields, found 101"),
    ],
)
def test_request_on_which_kafka_closes_is_rejected_with_reason(content: str, reason: str) -> None:
    assert refusal(content).reason == reason


@pytest.mark.parametrize("size", ["ffffffff", "000003e9"])
def test_size_out_of_range_is_rejected_at_once(size: str) -> None:
    connection = KafkaServerConnection(BYTES_MAX)
    connection.receive_data(bytes.fromhex(size))
    with pytest.raises(DecodeError, match="expected a frame size from 0 to 1000"):
        connection.next_request()


def test_size_limit_may_change_between_requests() -> None:
    connection = KafkaServerConnection(10)
    connection.request_bytes_max = 20
    connection.receive_data(frame(bytes.fromhex("0011 0001 00000007 ffff") + bytes(10)))
    assert connection.next_request() is not None


@pytest.mark.parametrize(
    "content",
    [
        "0012 0063 00000003 0001 70 00 026102620 0".replace(" ", ""),
        "0012 0063 00000003 0001 70 00",
        "0012 0063 00000003 ffff 00 ff",
        "0012 ffff 00000003 0001 70",
    ],
)
def test_unknown_version_of_api_versions_is_answered_in_version_0(content: str) -> None:
    """The bytes are a broker's."""
    request = the_request(content)
    assert not request.is_served
    answer = unsupported_api_versions(request)
    assert b"".join(answer).hex() == "0000001000000003002300000001001200000005"


def test_known_version_is_served() -> None:
    assert the_request("0012 0004 00000003 ffff 00 026102620 0".replace(" ", "")).is_served


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("001d 0001 00000007 ffff", "00000006 00000007 6162"),
        ("001d 0002 00000007 ffff 00", "00000007 00000007 00 6162"),
        ("0012 0002 00000007 ffff", "00000006 00000007 6162"),
        ("0012 0003 00000007 ffff 00", "00000006 00000007 6162"),
        ("0011 0001 80000000 ffff", "00000006 80000000 6162"),
    ],
)
def test_response_has_correlation_id_and_header_of_its_request(header: str, expected: str) -> None:
    """The header of ApiVersions never has tags."""
    assert frame_response(the_request(header), [b"a", b"b"]) == [bytes.fromhex(expected)]


def test_tokens_are_frames_without_a_header() -> None:
    """This applies after SaslHandshake version 0."""
    connection = KafkaServerConnection(BYTES_MAX)
    assert connection.next_token() is None
    connection.receive_data(frame_token(b"\0admin\0secret") + frame_token(b""))
    assert connection.next_token() == b"\0admin\0secret"
    assert connection.next_token() == b""
    assert connection.next_token() is None
    connection.receive_data(b"\xff\xff\xff\xff")
    with pytest.raises(DecodeError):
        connection.next_token()
