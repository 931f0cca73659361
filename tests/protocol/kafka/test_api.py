"""The table of served APIs, compared with kio and with a broker."""

from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map

from authorizerd.acl.steps import finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import (
    APIS,
    REQUESTED_APIS,
    ApiKey,
    QuorumKey,
    RequestedKey,
    choose_version,
    has_response_tags,
    names_software,
    served_apis,
)
from authorizerd.protocol.kafka.messages import (
    REQUEST_ITEMS_MAX,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from authorizerd.protocol.kafka.requests import SaslHandshakeRequest
from authorizerd.protocol.kafka.responses import SaslHandshakeAnswer
from tests.support.kafka_versions import read_table
from tests.support.kio_messages import request_type, response_type

SERVED = [(key, version) for key, api in APIS.items() for version in api.versions]


@pytest.mark.parametrize("api_key", ApiKey, ids=lambda key: key.name)
def test_api_has_kafkas_number_and_name(api_key: ApiKey) -> None:
    assert api_key_map[api_key] == api_key.name.lower()
    name = api_key.name.title().replace("_", "")
    assert APIS[api_key].name == name
    version = min(1, APIS[api_key].last_version if api_key is not ApiKey.ENVELOPE else 0)
    assert load_request_schema(api_key, version).__name__ == f"{name}Request"


def test_versions_are_those_of_a_broker_and_of_the_kips() -> None:
    """Of these, Kafka 4.4.0 lacks only version 0 of the ACL requests and version 1 of Envelope."""
    assert {key.name: api.last_version for key, api in APIS.items()} == {
        "METADATA": 13, "FIND_COORDINATOR": 6, "DESCRIBE_GROUPS": 6, "LIST_GROUPS": 5,
        "SASL_HANDSHAKE": 1, "API_VERSIONS": 5, "DESCRIBE_ACLS": 3, "CREATE_ACLS": 3,
        "DELETE_ACLS": 3, "DESCRIBE_CONFIGS": 4, "ALTER_CONFIGS": 2, "SASL_AUTHENTICATE": 2,
        "INCREMENTAL_ALTER_CONFIGS": 1, "DESCRIBE_CLIENT_QUOTAS": 1,
        "DESCRIBE_USER_SCRAM_CREDENTIALS": 0, "ALTER_USER_SCRAM_CREDENTIALS": 0,
        "DESCRIBE_QUORUM": 2, "ENVELOPE": 1, "DESCRIBE_CLUSTER": 2,
    }  # fmt: skip
    assert [key for key, api in APIS.items() if api.first_version] == [ApiKey.DESCRIBE_CONFIGS]
    api = APIS[ApiKey.DESCRIBE_ACLS]
    assert [api.serves(version) for version in (-1, 0, 3, 4)] == [False, True, True, False]


def test_each_kind_of_listener_serves_kafkas_apis() -> None:
    """Source: Kafka 4.3 ApiMessageType."""
    assert set(APIS) - set(served_apis(is_controller=False)) == {ApiKey.ENVELOPE}
    assert set(APIS) - set(served_apis(is_controller=True)) == {
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
    }


@pytest.mark.parametrize(("api_key", "version"), SERVED)
def test_each_version_is_flexible_as_in_kafka(api_key: ApiKey, version: int) -> None:
    entity_types: list[Any] = [request_type(api_key, version), response_type(api_key, version)]
    for entity_type in entity_types:
        assert int(entity_type.__api_key__) == int(api_key)
        assert entity_type.__flexible__ == APIS[api_key].is_flexible(version)


@pytest.mark.parametrize(("api_key", "version"), SERVED)
def test_headers_have_tags_as_in_kafka(api_key: ApiKey, version: int) -> None:
    request: Any = request_type(api_key, version)
    response: Any = response_type(api_key, version)
    request_header, response_header = request.__header_schema__, response.__header_schema__
    assert request_header.__flexible__ == APIS[api_key].is_flexible(version)
    assert response_header.__flexible__ == has_response_tags(api_key, version)


def test_future_version_is_flexible() -> None:
    """The header of an unknown ApiVersions must be readable. SaslHandshake is never flexible."""
    assert APIS[ApiKey.API_VERSIONS].is_flexible(99)
    assert not APIS[ApiKey.API_VERSIONS].is_flexible(-1)
    assert not APIS[ApiKey.SASL_HANDSHAKE].is_flexible(99)


def test_bodies_are_messages_of_their_api() -> None:
    body = bytes.fromhex("0005 504c41494e")
    request = finish(decode_request(ApiKey.SASL_HANDSHAKE, 1, body))
    assert request == SaslHandshakeRequest(mechanism="PLAIN")
    assert finish(encode_request(ApiKey.SASL_HANDSHAKE, 1, request)) == body
    answer = bytes.fromhex("0021 00000001 0005 504c41494e")
    response = finish(decode_response(ApiKey.SASL_HANDSHAKE, 0, answer))
    assert response == SaslHandshakeAnswer(33, ["PLAIN"])
    assert finish(encode_response(ApiKey.SASL_HANDSHAKE, 0, response)) == [answer]
    with pytest.raises(DecodeError):
        finish(decode_request(ApiKey.SASL_HANDSHAKE, 1, body[:-1]))


def test_number_of_items_per_request_is_limited() -> None:
    """A response may have more."""
    topics = REQUEST_ITEMS_MAX.to_bytes(4, "big") + b"\0\1t" * REQUEST_ITEMS_MAX
    finish(decode_request(ApiKey.METADATA, 0, topics))
    topics = (REQUEST_ITEMS_MAX + 1).to_bytes(4, "big") + b"\0\1t" * (REQUEST_ITEMS_MAX + 1)
    with pytest.raises(DecodeError, match="topics: 10001 items exceed the limit of 10000"):
        finish(decode_request(ApiKey.METADATA, 0, topics))
    mechanisms = b"\0\0" + topics
    finish(decode_response(ApiKey.SASL_HANDSHAKE, 0, mechanisms))


@pytest.mark.parametrize(
    ("name", "version", "allowed"),
    [
        ("apache-kafka-java", "4.3.1", True),
        ("a", "b", True),
        ("", "1", False),
        ("a", "", False),
        ("-a", "1", False),
        ("a-", "1", False),
        ("a b", "1", False),
        ("a\n", "1", False),
        ("ä", "1", False),
    ],
)
def test_software_names_have_letters_and_digits(name: str, version: str, allowed: bool) -> None:
    """Dots and dashes are allowed between them (KIP-511). A broker rejected ``-a``."""
    assert names_software(name, version) is allowed


KAFKAS = read_table()


@pytest.mark.parametrize("api_key", QuorumKey)
def test_quorums_apis_are_those_of_kio(api_key: QuorumKey) -> None:
    """The client knows their versions up to Kafka 4.4's."""
    assert int(api_key) not in {int(served) for served in APIS}
    api = REQUESTED_APIS[api_key]
    for version in api.versions:
        request, response = (
            load(api_key, version) for load in (load_request_schema, load_response_schema)
        )
        assert request.__name__ == f"{api.name}Request"
        assert request.__flexible__ == api.is_flexible(version)
        assert response.__header_schema__.__flexible__ == has_response_tags(api_key, version)


@pytest.mark.parametrize(
    ("api_key", "chosen"),
    [
        (QuorumKey.FETCH, [17, 17, 18, 18, 18, 18]),
        (QuorumKey.FETCH_SNAPSHOT, [1] * 6),
        (ApiKey.DESCRIBE_QUORUM, [2] * 6),
        (ApiKey.DESCRIBE_CLUSTER, [1, 2, 2, 2, 2, 2]),
        (ApiKey.CREATE_ACLS, [3] * 6),
        (ApiKey.DELETE_ACLS, [3] * 6),
        (ApiKey.ENVELOPE, [0] * 6),
    ],
)
def test_version_is_chosen_for_each_kafka(api_key: RequestedKey, chosen: list[int]) -> None:
    """The table was read from the jars of these Kafkas."""
    assert list(KAFKAS) == ["3.9", "4.0", "4.1", "4.2", "4.3", "4.4"]
    assert [choose_version(api_key, *each[api_key]) for each in KAFKAS.values()] == chosen


@pytest.mark.parametrize(
    ("api_key", "lowest", "highest"),
    [
        (QuorumKey.FETCH, 4, 12),
        (QuorumKey.FETCH, 19, 20),
        (QuorumKey.FETCH_SNAPSHOT, 0, -1),
        (ApiKey.CREATE_ACLS, 0, 0),
        (ApiKey.SASL_HANDSHAKE, 0, 0),
        (ApiKey.DESCRIBE_CLUSTER, 0, 0),
    ],
)
def test_no_version_is_chosen_if_none_is_common(
    api_key: RequestedKey, lowest: int, highest: int
) -> None:
    """Versions that cannot express what the client needs do not count."""
    assert choose_version(api_key, lowest, highest) is None


@pytest.mark.parametrize(("lowest", "highest", "chosen"), [
    (0, 2, 2), (0, 0, 0), (1, 7, 4), (4, 7, 4), (5, 7, None), (0, -1, None),
])  # fmt: skip
def test_version_is_one_of_those_that_the_call_names(
    lowest: int, highest: int, chosen: int | None
) -> None:
    """They may be earlier ones than those that most calls need."""
    assert choose_version(ApiKey.DESCRIBE_CLUSTER, lowest, highest, range(5)) == chosen
