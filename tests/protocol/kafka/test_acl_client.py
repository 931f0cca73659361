"""The ACL messages of a client or a forwarder, against the server's side."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.acl.steps import finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_delete_acls_response,
    decode_describe_acls_response,
    encode_create_acls_request,
    encode_delete_acls_request,
    encode_describe_acls_request,
    read_listing,
    read_listing_head,
)
from authorizerd.protocol.kafka.acl_types import ERROR_TEXTS_MAX
from authorizerd.protocol.kafka.acls import FilterResult, MatchingAcl
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.protocol.decoding import check_cuts
from tests.support.acl_messages import (
    decode_create_acls,
    decode_created,
    decode_delete_acls,
    decode_deleted,
    decode_describe_acls,
    encode_create_acls,
    encode_creations,
    encode_delete_acls,
    encode_deletions,
    encode_describe_acls_error,
    encode_listing,
    joined,
)
from tests.support.acls import acl
from tests.support.strategies import acl_filters, acls, any_acls, texts

some_examples = settings(max_examples=25)
each_version = pytest.mark.parametrize("version", range(4))
each_pattern_version = pytest.mark.parametrize("version", range(1, 4))
errors = st.builds(ApiError, st.sampled_from([-1, 31, 42, 77, 801]), st.none() | texts)
outcomes = st.none() | errors
matches = st.builds(MatchingAcl, acl=acls(unknown_codes=True), error=outcomes)
filter_results = st.builds(FilterResult, matches=st.lists(matches, max_size=3), error=outcomes)


@each_pattern_version
@some_examples
@given(filter=acl_filters)
def test_filter_arrives(version: int, filter: AclFilter) -> None:
    """It arrives in a describe and in a delete."""
    describe = encode_describe_acls_request(version, filter)
    assert decode_describe_acls(version, describe) == (filter, None)
    delete = encode_delete_acls_request(version, [filter, AclFilter()])
    assert finish(decode_delete_acls(version, delete)) == ([filter, AclFilter()], None)


def test_version_0_supports_only_literal_patterns() -> None:
    """ANY means LITERAL there, since patterns had no types."""
    literal = acl(topic="t")
    body = encode_create_acls_request(0, [literal])
    assert finish(decode_create_acls(0, body)) == ([literal], None)
    describe = encode_describe_acls_request(0, AclFilter())
    assert decode_describe_acls(0, describe)[0].pattern_type == PatternType.LITERAL
    with pytest.raises(ValueError, match="only literal patterns"):
        encode_create_acls_request(0, [acl(topic="t", pattern="PREFIXED")])
    for pattern_type in (PatternType.PREFIXED, PatternType.MATCH):
        with pytest.raises(ValueError, match="only literal patterns"):
            encode_describe_acls_request(0, AclFilter(pattern_type=pattern_type))
        with pytest.raises(ValueError, match="only literal patterns"):
            encode_delete_acls_request(0, [AclFilter(pattern_type=pattern_type)])


@each_version
@some_examples
@given(error=errors)
def test_failed_describe_gives_its_error(version: int, error: ApiError) -> None:
    """This includes error codes that the client does not know."""
    assert (
        decode_describe_acls_response(version, encode_describe_acls_error(version, error)) == error
    )


@each_version
@some_examples
@given(results=st.lists(outcomes, max_size=5))
def test_results_of_creations_arrive(version: int, results: list[ApiError | None]) -> None:
    body = joined(encode_create_acls(version, results))
    assert decode_create_acls_response(version, body) == results
    assert finish(decode_created(version, body, len(results))) == (results, None)


@each_pattern_version
@some_examples
@given(results=st.lists(filter_results, max_size=3))
def test_results_of_filters_arrive(version: int, results: list[FilterResult]) -> None:
    body = joined(encode_delete_acls(version, results))
    assert decode_delete_acls_response(version, body) == results
    assert finish(decode_deleted(version, body, len(results))) == (results, None)


ERROR = ApiError(42, "no")
REFUSED = FilterResult(matches=[MatchingAcl(acl=acl(), error=ERROR)], error=ERROR)


@each_pattern_version
def test_answer_without_exactly_one_result_per_item_is_rejected(version: int) -> None:
    created = joined(encode_create_acls(version, [None, ERROR]))
    deleted = joined(encode_delete_acls(version, [FilterResult(), REFUSED]))
    check_cuts(lambda body: finish(decode_created(version, body, 2)), created)
    check_cuts(lambda body: finish(decode_deleted(version, body, 2)), deleted)
    for count in (0, 1, 3):
        with pytest.raises(DecodeError, match="expected one for each of"):
            finish(decode_created(version, created, count))
        with pytest.raises(DecodeError, match="expected one for each of"):
            finish(decode_deleted(version, deleted, count))


@pytest.mark.parametrize("version", [2, 3])
def test_offset_is_read_from_answers_that_have_it(version: int) -> None:
    created = joined(encode_create_acls(version, [None], 7))
    deleted = joined(encode_delete_acls(version, [FilterResult()], 8))
    assert finish(decode_created(version, created, 1)) == ([None], 7)
    assert finish(decode_deleted(version, deleted, 1)) == ([FilterResult(matches=[])], 8)


def test_version_without_tagged_fields_cannot_expect_an_offset() -> None:
    """Otherwise a condition would be lost without notice."""
    with pytest.raises(ValueError, match="cannot carry an expected offset"):
        encode_create_acls_request(1, [acl()], 7)
    with pytest.raises(ValueError, match="cannot carry an expected offset"):
        encode_delete_acls_request(1, [AclFilter()], 7)


def test_large_messages_are_handled_in_steps() -> None:
    asked = [acl(f"User:{number}") for number in range(1000)]
    matches = [MatchingAcl(acl=each) for each in asked]
    many = joined(encode_delete_acls(3, [FilterResult(matches=[each]) for each in matches]))
    many_in_one = joined(encode_delete_acls(3, [FilterResult(matches=matches)]))
    steps: list[Any] = [
        encode_creations(3, asked),
        encode_deletions(3, [AclFilter()] * 1000),
        decode_created(3, joined(encode_create_acls(3, [None] * 1000)), 1000),
        decode_deleted(3, many, 1000),
        decode_deleted(3, many_in_one, 1),
    ]
    assert [len(list(each)) >= 1000 // 64 for each in steps] == [True] * 5


def test_number_of_error_texts_is_bounded() -> None:
    """Equal errors are one value. Beyond the limit, an error keeps its code only."""
    answered = [ApiError(42, f"reason {number}") for number in range(ERROR_TEXTS_MAX + 2)]
    body = joined(encode_create_acls(3, [*answered, answered[0]]))
    read, _ = finish(decode_created(3, body, len(answered) + 1))
    assert read[:ERROR_TEXTS_MAX] == answered[:ERROR_TEXTS_MAX]
    assert read[ERROR_TEXTS_MAX:-1] == [ApiError(42, None)] * 2
    assert read[-1] is read[0]


@each_pattern_version
@given(bindings=st.lists(acls(unknown_codes=True) | any_acls, max_size=6, unique=True))
def test_listing_has_every_acl(version: int, bindings: list[Acl]) -> None:
    """Unknown codes are kept raw. The general decoder reads the same."""
    body = joined(encode_listing(version, bindings))
    listing = finish(read_listing(version, bytearray(body)))
    assert dict(listing.items()) == {derive_id(each): each for each in bindings}
    decoded = decode_describe_acls_response(version, body)
    assert isinstance(decoded, list)
    assert set(decoded) == set(bindings)
    assert read_listing_head(version, body).error is None


@each_pattern_version
def test_cut_or_prolonged_listing_is_rejected(version: int) -> None:
    bindings = [acl(topic="t"), acl(group="g", deny=True), acl(cluster=True)]
    body = joined(encode_listing(version, bindings))
    for end in range(len(body)):
        with pytest.raises(DecodeError):
            finish(read_listing(version, body[:end]))
    with pytest.raises(DecodeError, match="1 bytes too many"):
        finish(read_listing(version, body + b"\0"))


@each_pattern_version
@pytest.mark.parametrize("throttle_ms", [0, 1234, -1])
def test_error_and_throttle_time_are_read_first(version: int, throttle_ms: int) -> None:
    error = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
    body = encode_describe_acls_error(version, error)
    throttled = throttle_ms.to_bytes(4, "big", signed=True) + body[4:]
    head = read_listing_head(version, throttled)
    assert (head.error, head.throttle_ms) == (error, max(throttle_ms, 0))


def test_large_listing_is_read_in_steps() -> None:
    """Many patterns, and many ACLs of one pattern."""
    for bindings in (
        [acl(topic=f"t{number}") for number in range(2_000)],
        [acl(f"User:{number}") for number in range(2_000)],
    ):
        assert len(list(read_listing(3, joined(encode_listing(3, bindings))))) > 30
