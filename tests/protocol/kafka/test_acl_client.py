"""A client's encodings against the server's."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_delete_acls_response,
    decode_describe_acls_response,
    encode_create_acls_request,
    encode_delete_acls_request,
    encode_describe_acls_request,
)
from authorizerd.protocol.kafka.acls import FilterResult, MatchingAcl
from authorizerd.protocol.kafka.error_codes import ApiError
from tests.protocol.decoding import check_any
from tests.support.acl_messages import (
    DescribeAclsBody,
    decode_create_acls,
    decode_delete_acls,
    decode_describe_acls,
    encode_create_acls,
    encode_delete_acls,
    encode_describe_acls_error,
)
from tests.support.strategies import acl_filters, acls, texts

some_examples = settings(max_examples=25)
each_version = pytest.mark.parametrize("version", range(4))
each_pattern_version = pytest.mark.parametrize("version", range(1, 4))
errors = st.builds(ApiError, st.sampled_from([-1, 31, 42, 77, 801]), st.none() | texts)


@each_pattern_version
@some_examples
@given(filter=acl_filters)
def test_filter_arrives(version: int, filter: AclFilter) -> None:
    """It arrives in a describe and in a delete."""
    describe = encode_describe_acls_request(version, filter)
    assert decode_describe_acls(version, describe) == (filter, None)
    delete = encode_delete_acls_request(version, [filter, AclFilter()])
    assert finish(decode_delete_acls(version, delete)) == ([filter, AclFilter()], None)


@each_pattern_version
@some_examples
@given(asked=st.lists(acls(unknown_codes=True), max_size=4))
def test_creations_arrive_in_order(version: int, asked: list[Acl]) -> None:
    body = encode_create_acls_request(version, asked)
    assert finish(decode_create_acls(version, body)) == (asked, None)


def test_version_0_supports_only_literal_patterns() -> None:
    """ANY means LITERAL there, since patterns had no types."""
    literal = Acl(2, "t", PatternType.LITERAL, "User:a", "*", 3, 3)
    body = encode_create_acls_request(0, [literal])
    assert finish(decode_create_acls(0, body)) == ([literal], None)
    describe = encode_describe_acls_request(0, AclFilter())
    assert decode_describe_acls(0, describe)[0].pattern_type == PatternType.LITERAL
    with pytest.raises(ValueError, match="only literal patterns"):
        encode_create_acls_request(0, [Acl(2, "t", PatternType.PREFIXED, "User:a", "*", 3, 3)])
    for pattern_type in (PatternType.PREFIXED, PatternType.MATCH):
        with pytest.raises(ValueError, match="only literal patterns"):
            encode_describe_acls_request(0, AclFilter(pattern_type=pattern_type))
        with pytest.raises(ValueError, match="only literal patterns"):
            encode_delete_acls_request(0, [AclFilter(pattern_type=pattern_type)])


@each_pattern_version
@some_examples
@given(found=st.lists(acls(unknown_codes=True), max_size=8))
def test_described_acls_arrive(version: int, found: list[Acl]) -> None:
    body = DescribeAclsBody(version)
    body.add(found)
    read = decode_describe_acls_response(version, b"".join(finish(body.encode())))
    assert isinstance(read, list)
    assert sorted(map(str, read)) == sorted(map(str, found))


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
@given(results=st.lists(st.none() | errors, max_size=5))
def test_results_of_creations_arrive(version: int, results: list[ApiError | None]) -> None:
    body = b"".join(finish(encode_create_acls(version, results)))
    assert decode_create_acls_response(version, body) == results


@each_pattern_version
@some_examples
@given(
    results=st.lists(
        st.builds(
            FilterResult,
            matches=st.lists(
                st.builds(MatchingAcl, acl=acls(unknown_codes=True), error=st.none() | errors),
                max_size=3,
            ),
            error=st.none() | errors,
        ),
        max_size=3,
    )
)
def test_results_of_filters_arrive(version: int, results: list[FilterResult]) -> None:
    body = b"".join(finish(encode_delete_acls(version, results)))
    assert decode_delete_acls_response(version, body) == results


def test_answers_of_version_0_have_literal_patterns() -> None:
    acl = Acl(2, "t", PatternType.LITERAL, "User:a", "*", 3, 3)
    body = DescribeAclsBody(0)
    body.add([acl])
    assert decode_describe_acls_response(0, b"".join(finish(body.encode()))) == [acl]
    results = [FilterResult(matches=[MatchingAcl(acl=acl)])]
    deleted = b"".join(finish(encode_delete_acls(0, results)))
    assert decode_delete_acls_response(0, deleted) == results


@each_version
@some_examples
@given(data=st.binary(max_size=60))
def test_garbage_is_a_response_or_a_decode_error(version: int, data: bytes) -> None:
    for decode in (
        decode_describe_acls_response,
        decode_create_acls_response,
        decode_delete_acls_response,
    ):
        check_any(partial(decode, version), data)
