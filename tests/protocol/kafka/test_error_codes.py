"""Kafka's error codes and texts."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode


@pytest.mark.parametrize(
    "name", [name for name in ErrorCode.__members__ if "NOT_READY" not in name]
)
def test_codes_are_kafkas(name: str) -> None:
    """kio generates its enumeration from Kafka's."""
    assert KioErrorCode[name.lower()].value == ErrorCode[name].value


def test_authorizer_not_ready_is_801() -> None:
    assert int(ErrorCode.AUTHORIZER_NOT_READY) == 801
    assert ErrorCode.AUTHORIZER_NOT_READY.text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ApiError(31), "CLUSTER_AUTHORIZATION_FAILED: Cluster authorization failed."),
        (ApiError(31, ""), "CLUSTER_AUTHORIZATION_FAILED: Cluster authorization failed."),
        (ApiError(42, "Invalid operation ANY"), "INVALID_REQUEST: Invalid operation ANY"),
        (ApiError(77, "of another Kafka"), "error 77: of another Kafka"),
        (ApiError(77), "error 77: no text"),
    ],
)
def test_error_prints_its_name_and_text(error: ApiError, text: str) -> None:
    """Its own text, or Kafka's. An unknown code prints its number."""
    assert str(error) == text
