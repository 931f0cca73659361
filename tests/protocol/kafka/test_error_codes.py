"""Kafka's error codes and texts."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

KIO_LACKS = {
    "GROUP_DELETION_FAILED": 134,
    "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED": 135,
    "CONTROLLER_ID_NOT_REGISTERED": 136,
    "AUTHORIZER_NOT_READY": 801,
}
"""The codes that Kafka 4.4 added, and KIP-801's, to which Kafka gave no number."""


@pytest.mark.parametrize("error", ErrorCode)
def test_codes_are_kafkas(error: ErrorCode) -> None:
    """kio generates its enumeration from that of an earlier Kafka."""
    name = error.name
    code = KIO_LACKS[name] if name in KIO_LACKS else KioErrorCode[name.lower()].value
    assert code == error.value


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ApiError(31), "CLUSTER_AUTHORIZATION_FAILED: Cluster authorization failed."),
        (ApiError(31, ""), "CLUSTER_AUTHORIZATION_FAILED: Cluster authorization failed."),
        (ApiError(42, "Invalid operation ANY"), "INVALID_REQUEST: Invalid operation ANY"),
        (
            ApiError(136),
            "CONTROLLER_ID_NOT_REGISTERED: The given controller ID was not registered.",
        ),
        (ApiError(77, "of another Kafka"), "error 77: of another Kafka"),
        (ApiError(77), "error 77: no text"),
    ],
)
def test_error_prints_its_name_and_text(error: ApiError, text: str) -> None:
    """Its own text, or Kafka's. An unknown code prints its number."""
    assert str(error) == text
