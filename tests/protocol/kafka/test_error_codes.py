"""Kafka's error codes: the numbers clients know, the texts they print."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode


@pytest.mark.parametrize(
    "name", [name for name in ErrorCode.__members__ if "NOT_READY" not in name]
)
def test_a_code_is_that_of_kafka(name: str) -> None:
    """As kio has it, which generates its enumeration from Kafka's."""
    assert KioErrorCode[name.lower()].value == ErrorCode[name].value


def test_the_code_that_kafka_never_numbered_is_801() -> None:
    """Whoever waits for KIP-801's error waits for this number."""
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
def test_an_error_reads_as_its_name_and_text(error: ApiError, text: str) -> None:
    """The answer's own text, else Kafka's; a code that is not known here keeps its number."""
    assert str(error) == text
