"""The APIs that the client requests, and the versions that it chooses."""

import pytest
from kio.index import load_request_schema, load_response_schema

from authorizerd.protocol.kafka.api import (
    APIS,
    REQUESTED_APIS,
    ApiKey,
    QuorumKey,
    RequestedKey,
    choose_version,
    has_response_tags,
)
from tests.support.kafka_versions import read_table

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
