"""Changes of ACLs and their answers as a forwarder writes and reads them, against the server's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.acl.model import AclFilter
from authorizerd.acl.steps import finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_client import (
    encode_create_acls_request,
    encode_delete_acls_request,
)
from authorizerd.protocol.kafka.acl_types import ERROR_TEXTS_MAX
from authorizerd.protocol.kafka.acls import FilterResult, MatchingAcl
from authorizerd.protocol.kafka.error_codes import ApiError
from tests.support.acl_messages import (
    decode_created,
    decode_deleted,
    encode_create_acls,
    encode_creations,
    encode_delete_acls,
    encode_deletions,
)
from tests.support.acls import acl
from tests.support.strategies import acls, texts

some_examples = settings(max_examples=25)
each_version = pytest.mark.parametrize("version", range(1, 4))
errors = st.none() | st.builds(ApiError, st.sampled_from([-1, 31, 41, 77, 801]), texts)
matches = st.builds(MatchingAcl, acl=acls(unknown_codes=True), error=errors)
results = st.builds(FilterResult, matches=st.lists(matches, max_size=3), error=errors)


@each_version
@some_examples
@given(answered=st.lists(errors, max_size=5))
def test_results_of_creations_arrive_in_order(
    version: int, answered: list[ApiError | None]
) -> None:
    body = b"".join(finish(encode_create_acls(version, answered)))
    assert finish(decode_created(version, body, len(answered))) == (answered, None)


@each_version
@some_examples
@given(answered=st.lists(results, max_size=4))
def test_results_of_deletions_arrive_in_order(version: int, answered: list[FilterResult]) -> None:
    body = b"".join(finish(encode_delete_acls(version, answered)))
    assert finish(decode_deleted(version, body, len(answered))) == (answered, None)


@each_version
@pytest.mark.parametrize("count", [0, 1, 3])
def test_answer_with_another_number_of_results_is_rejected(version: int, count: int) -> None:
    created = b"".join(finish(encode_create_acls(version, [None, None])))
    deleted = b"".join(finish(encode_delete_acls(version, [FilterResult(), FilterResult()])))
    for decoded in (
        decode_created(version, created, count),
        decode_deleted(version, deleted, count),
    ):
        with pytest.raises(DecodeError, match="expected one for each of"):
            finish(decoded)


@each_version
def test_answer_that_is_cut_is_rejected(version: int) -> None:
    error = ApiError(42, "no")
    created = b"".join(finish(encode_create_acls(version, [None, error])))
    match = MatchingAcl(acl=acl(), error=error)
    deleted = b"".join(
        finish(encode_delete_acls(version, [FilterResult(matches=[match], error=error)]))
    )
    decoders: list[tuple[Any, bytes, int]] = [
        (decode_created, created, 2),
        (decode_deleted, deleted, 1),
    ]
    for decode, body, count in decoders:
        for end in range(len(body)):
            with pytest.raises(DecodeError):
                finish(decode(version, body[:end], count))


@some_examples
@given(body=st.binary(max_size=60), count=st.integers(0, 3))
def test_any_bytes_give_results_or_an_error(body: bytes, count: int) -> None:
    decoders: list[Any] = [decode_created, decode_deleted]
    for decode in decoders:
        for version in range(1, 4):
            try:
                assert len(finish(decode(version, body, count))[0]) == count
            except DecodeError:
                continue


@pytest.mark.parametrize("version", [2, 3])
def test_offset_is_read_from_answers_that_have_it(version: int) -> None:
    created = b"".join(finish(encode_create_acls(version, [None], 7)))
    deleted = b"".join(finish(encode_delete_acls(version, [FilterResult()], 8)))
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
    many = [FilterResult(matches=[MatchingAcl(acl=each)]) for each in asked]
    created = b"".join(finish(encode_create_acls(3, [None] * 1000)))
    deleted = b"".join(finish(encode_delete_acls(3, many)))
    many_in_one = FilterResult(matches=[MatchingAcl(acl=each) for each in asked])
    one = b"".join(finish(encode_delete_acls(3, [many_in_one])))
    steps: list[Any] = [
        encode_creations(3, asked),
        encode_deletions(3, [AclFilter()] * 1000),
        decode_created(3, created, 1000),
        decode_deleted(3, deleted, 1000),
        decode_deleted(3, one, 1),
    ]
    assert [len(list(each)) >= 1000 // 64 for each in steps] == [True] * 5


def test_number_of_error_texts_is_bounded() -> None:
    """Equal errors are one value. Beyond the limit, an error keeps its code only."""
    answered = [ApiError(42, f"reason {number}") for number in range(ERROR_TEXTS_MAX + 2)]
    body = b"".join(finish(encode_create_acls(3, [*answered, answered[0]])))
    read, _ = finish(decode_created(3, body, len(answered) + 1))
    assert read[:ERROR_TEXTS_MAX] == answered[:ERROR_TEXTS_MAX]
    assert read[ERROR_TEXTS_MAX:-1] == [ApiError(42, None)] * 2
    assert read[-1] is read[0]
