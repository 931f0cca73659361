"""The ACL responses, compared with kio's reader and writer."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader

from authorizerd.acl.model import Acl, PatternType
from authorizerd.acl.steps import Steps, finish
from authorizerd.protocol.kafka.acls import TEXTS_BYTES_MAX, FilterResult, MatchingAcl
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.chunked_output import CHUNK_BYTES, Chunk
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.support.acl_messages import (
    encode_all_created,
    encode_create_acls,
    encode_delete_acls,
    encode_describe_acls_error,
    encode_listing,
    joined,
)
from tests.support.kio_messages import response_type, written_by_kio
from tests.support.sizes import size
from tests.support.strategies import acls, any_acls, texts

some_examples = settings(max_examples=25)
each_version = pytest.mark.parametrize("version", range(4))
# kio's reader rejects every code that its version of Kafka does not define.
errors = st.builds(
    ApiError,
    st.sampled_from([code for code in ErrorCode if 0 != code < 134]),
    st.none() | texts,
)


def literal(acl: Acl, version: int) -> Acl:
    """Return the ACL as the version can express it."""
    return acl if version else msgspec.structs.replace(acl, pattern_type=PatternType.LITERAL)


def read_by_kio(api_key: ApiKey, version: int, body: bytes) -> Any:  # noqa: ANN401 - any version
    """Return the entity. Check that kio writes the same bytes."""
    entity, size = entity_reader(response_type(api_key, version))(body, 0)
    assert size == len(body)
    assert written_by_kio(entity) == body
    return entity


def the_acl(resource: Any, entry: Any) -> Acl:  # noqa: ANN401 - of any version
    return Acl(
        resource.resource_type, resource.resource_name,
        getattr(resource, "pattern_type", PatternType.LITERAL),
        entry.principal, entry.host, entry.operation, entry.permission_type,
    )  # fmt: skip


def check_listed(version: int, body: bytes, found: list[Acl]) -> None:
    response = read_by_kio(ApiKey.DESCRIBE_ACLS, version, body)
    assert (response.error_code, response.error_message) == (0, "")
    assert response.throttle_time.total_seconds() == 0
    told = Counter(the_acl(each, acl) for each in response.resources for acl in each.acls)
    assert told == Counter(found)
    patterns = {(acl.resource_type, acl.resource_name, acl.pattern_type) for acl in found}
    assert len(response.resources) == len(patterns)


@each_version
@some_examples
@given(found=st.lists(acls(unknown_codes=True) | any_acls, max_size=12), cut=st.integers(0, 12))
def test_describe_lists_each_acl_by_its_pattern(version: int, found: list[Acl], cut: int) -> None:
    found = [literal(acl, version) for acl in found]
    check_listed(version, joined(encode_listing(version, found[:cut], found[cut:])), found)


@each_version
@some_examples
@given(error=errors)
def test_failed_describe_has_no_resources(version: int, error: ApiError) -> None:
    """Source: KIP-140."""
    body = encode_describe_acls_error(version, error)
    response = read_by_kio(ApiKey.DESCRIBE_ACLS, version, body)
    assert (response.error_code, response.error_message) == (error.code, error.message)
    assert response.resources == ()


@each_version
@some_examples
@given(results=st.lists(st.none() | errors, max_size=8))
def test_create_has_a_result_per_creation(version: int, results: list[ApiError | None]) -> None:
    """Results are in order. As from a broker, the text of a success is empty."""
    body = joined(encode_create_acls(version, results))
    response = read_by_kio(ApiKey.CREATE_ACLS, version, body)
    assert [(result.error_code, result.error_message) for result in response.results] == [
        (0, "") if error is None else (error.code, error.message) for error in results
    ]


@each_version
@pytest.mark.parametrize("count", [0, 1, 200, 20_000])
def test_all_created_is_written_like_single_results(version: int, count: int) -> None:
    expected = joined(encode_create_acls(version, [None] * count))
    assert b"".join(encode_all_created(version, count)) == expected


matches = st.builds(MatchingAcl, acl=acls(unknown_codes=True), error=st.none() | errors)
filter_results = st.builds(FilterResult, matches=st.lists(matches, max_size=4)) | st.builds(
    FilterResult, matches=st.just([]), error=errors
)


@each_version
@some_examples
@given(results=st.lists(filter_results, max_size=4))
def test_delete_has_a_result_per_filter_and_match(
    version: int, results: list[FilterResult]
) -> None:
    """Results are in order. As from a broker, the text of a success is null."""
    told = [
        FilterResult(
            matches=[
                MatchingAcl(acl=literal(match.acl, version), error=match.error)
                for match in result.matches
            ],
            error=result.error,
        )
        for result in results
    ]
    body = joined(encode_delete_acls(version, told))
    response = read_by_kio(ApiKey.DELETE_ACLS, version, body)
    read = [
        FilterResult(
            matches=[
                MatchingAcl(acl=the_acl(match, match), error=error_of(match))
                for match in each.matching_acls
            ],
            error=error_of(each),
        )
        for each in response.filter_results
    ]
    assert read == told


def error_of(answer: Any) -> ApiError | None:  # noqa: ANN401 - of any version
    if answer.error_code == 0:
        assert answer.error_message is None
        return None
    return ApiError(answer.error_code, answer.error_message)


@each_version
def test_authorizer_not_ready_is_sent(version: int) -> None:
    error = ApiError(ErrorCode.AUTHORIZER_NOT_READY)
    assert encode_describe_acls_error(version, error)[4:6].hex() == "0321"
    assert b"\x03\x21" in joined(encode_create_acls(version, [error]))
    assert b"\x03\x21" in joined(encode_delete_acls(version, [FilterResult(error=error)]))


@each_version
def test_error_text_is_shortened(version: int) -> None:
    error = ApiError(42, "Could not parse principal from `" + "ü" * 32767 + "`")
    body = joined(encode_create_acls(version, [error]))
    [result] = read_by_kio(ApiKey.CREATE_ACLS, version, body).results
    assert result.error_message.startswith("Could not parse principal from `ü")


@each_version
@pytest.mark.parametrize("encode", [encode_create_acls, encode_delete_acls])
def test_total_size_of_error_texts_is_limited(
    version: int, encode: Callable[..., Steps[list[Chunk]]]
) -> None:
    """Beyond the limit, errors have only a code."""
    api_key = ApiKey.CREATE_ACLS if encode is encode_create_acls else ApiKey.DELETE_ACLS
    error = ApiError(44, "Unable to perform excessively large batch operation.")
    item = error if encode is encode_create_acls else FilterResult(error=error)

    def answered(count: int) -> tuple[int, list[tuple[int, str | None]]]:
        body = joined(encode(version, [item] * count))
        response = read_by_kio(api_key, version, body)
        items = response.results if encode is encode_create_acls else response.filter_results
        return len(body), [(each.error_code, each.error_message) for each in items]

    _, told = answered(10_001)
    assert told == [(44, error.message)] * 10_001
    count = size(30_000, 100_000)
    length, told = answered(count)
    assert length < TEXTS_BYTES_MAX + 8 * count + 16
    assert set(told) == {(44, error.message), (44, None)}
    assert told == sorted(told, key=lambda each: each[1] is None)


@each_version
def test_too_long_name_is_rejected(version: int) -> None:
    """It can only come from the log."""
    acl = Acl(2, "x" * 0x8000, 3, "User:a", "*", 3, 3)
    with pytest.raises(ValueError, match="found 32768"):
        joined(encode_listing(version, [acl]))
    with pytest.raises(ValueError, match="found 32768"):
        joined(encode_listing(version, [Acl(2, "x", 3, acl.resource_name, "*", 3, 3)]))
    with pytest.raises(ValueError, match="found 32768"):
        finish(encode_delete_acls(version, [FilterResult(matches=[MatchingAcl(acl=acl)])]))


@each_version
@pytest.mark.parametrize("resources", [1, 10, 3000])
def test_large_response_is_written_in_steps_and_chunks(version: int, resources: int) -> None:
    found = [
        Acl(2, f"topic-{number % resources}", 3, f"User:{number}", "*", 3, 3)
        for number in range(3000)
    ]
    assert len(list(encode_listing(version, found))) >= resources // 64
    matched = [FilterResult(matches=[MatchingAcl(acl=acl) for acl in found])]
    assert len(list(encode_delete_acls(version, matched))) >= 3000 // 128
    check_listed(version, joined(encode_listing(version, found)), found)
    assert len(list(encode_create_acls(version, [None] * 3000))) >= 3000 // 128
    assert len(list(encode_delete_acls(version, [FilterResult()] * 3000))) >= 3000 // 128


@each_version
def test_acls_of_one_pattern_are_split_into_chunks(version: int) -> None:
    found = [Acl(2, "t", 3, f"User:{number:0100}", "*", 3, 3) for number in range(2000)]
    chunks = finish(encode_listing(version, found))
    assert max(map(len, chunks)) < CHUNK_BYTES + 200
    response = read_by_kio(ApiKey.DESCRIBE_ACLS, version, b"".join(chunks))
    assert [the_acl(each, acl) for each in response.resources for acl in each.acls] == found


@each_version
def test_large_groups_are_not_copied(version: int) -> None:
    """Each is a chunk and a step."""
    found = [
        Acl(2, f"topic-{number % 20}", 3, f"User:{number:0100}", "*", 3, 3)
        for number in range(2000)
    ]
    assert len(list(encode_listing(version, found))) >= 20
    check_listed(version, joined(encode_listing(version, found)), found)
