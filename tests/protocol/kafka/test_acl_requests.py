"""The ACL requests to ACLs and filters, compared with kio's entities of the same bytes."""

from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar, get_args
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.acl.steps import finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka import acl_types, codec
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.messages import count_items
from tests.protocol.decoding import check_cuts
from tests.support.acl_messages import decode_create_acls, decode_delete_acls, decode_describe_acls
from tests.support.kio_messages import request_type, written_by_kio
from tests.support.strategies import acl_filters, acls, any_acls

VERSIONS = range(4)
some_examples = settings(max_examples=25)
each_version = pytest.mark.parametrize("version", VERSIONS)
T = TypeVar("T", Acl, AclFilter)


def item_type(api_key: ApiKey, version: int) -> Any:  # noqa: ANN401 - of any version
    """Return the item type of the request's one array."""
    [array] = fields(request_type(api_key, version))
    return get_args(array.type)[0]


def filter_values(filter: AclFilter, version: int) -> dict[str, Any]:
    pattern_type = {"pattern_type_filter": filter.pattern_type} if version else {}
    return pattern_type | {
        "resource_type_filter": filter.resource_type,
        "resource_name_filter": filter.resource_name,
        "principal_filter": filter.principal,
        "host_filter": filter.host,
        "operation": filter.operation,
        "permission_type": filter.permission_type,
    }


def describe_body(version: int, filter: AclFilter) -> bytes:
    entity_type: Any = request_type(ApiKey.DESCRIBE_ACLS, version)
    return written_by_kio(entity_type(**filter_values(filter, version)))


def delete_body(version: int, filters: list[AclFilter]) -> bytes:
    request: Any = request_type(ApiKey.DELETE_ACLS, version)
    item = item_type(ApiKey.DELETE_ACLS, version)
    values = (filter_values(each, version) for each in filters)
    return written_by_kio(request(filters=tuple(item(**each) for each in values)))


def create_body(version: int, acls: list[Acl]) -> bytes:
    request: Any = request_type(ApiKey.CREATE_ACLS, version)
    item = item_type(ApiKey.CREATE_ACLS, version)
    creations = tuple(
        item(
            resource_type=acl.resource_type, resource_name=acl.resource_name,
            principal=acl.principal, host=acl.host,
            operation=acl.operation, permission_type=acl.permission_type,
            **({"resource_pattern_type": acl.pattern_type} if version else {}),
        )
        for acl in acls
    )  # fmt: skip
    return written_by_kio(request(creations=creations))


def as_read(version: int, asked: T) -> T:
    """Return an ACL or filter as the version can express it."""
    return asked if version else replace(asked, pattern_type=PatternType.LITERAL)


@each_version
@some_examples
@given(filter=acl_filters)
def test_describe_has_its_filter(version: int, filter: AclFilter) -> None:
    """Codes are kept. In version 0 the pattern type is LITERAL."""
    read = decode_describe_acls(version, describe_body(version, filter))
    assert read == (as_read(version, filter), None)


@each_version
@some_examples
@given(asked=st.lists(acl_filters, max_size=4), trailing=st.binary(max_size=3))
def test_delete_has_its_filters(version: int, asked: list[AclFilter], trailing: bytes) -> None:
    """Trailing bytes are ignored, as by Kafka 4.3.1."""
    body = delete_body(version, asked) + trailing
    read = finish(decode_delete_acls(version, body))
    assert read == ([as_read(version, each) for each in asked], None)
    assert count_items(ApiKey.DELETE_ACLS, version, body) == len(asked)


@each_version
@some_examples
@given(
    asked=st.lists(acls(unknown_codes=True) | any_acls, max_size=8),
    trailing=st.binary(max_size=3),
)
def test_create_has_its_acls_in_order(version: int, asked: list[Acl], trailing: bytes) -> None:
    """Codes are kept. In version 0 the pattern type is LITERAL."""
    body = create_body(version, asked) + trailing
    read = finish(decode_create_acls(version, body))
    assert read == ([as_read(version, each) for each in asked], None)
    assert count_items(ApiKey.CREATE_ACLS, version, body) == len(asked)


@pytest.fixture(scope="module", autouse=True)
def _in_steps() -> Iterator[None]:
    """Read all requests in steps, also small ones, which ``test_codec`` reads both ways."""
    with patch.object(codec, "_SMALL_BYTES_MAX", -1):
        yield


@given(
    asked=st.lists(acls(unknown_codes=True) | any_acls, min_size=1, max_size=3),
    cut=st.integers(0, 100),
    changed=st.tuples(st.integers(0, 100), st.integers(0, 255)),
)
def test_usual_creations_are_read_as_any_others(
    asked: list[Acl], cut: int, changed: tuple[int, int]
) -> None:
    """The same bytes give the same ACLs, or the same error, however they are read."""
    body = bytearray(create_body(3, asked))
    body[changed[0] % len(body)] = changed[1]
    del body[len(body) - cut % len(body) :]

    def read() -> list[Acl] | str:
        try:
            return finish(decode_create_acls(3, body))[0]
        except DecodeError as error:
            return str(error)

    with patch.object(acl_types, "_WINDOW_BYTES", 0):
        expected = read()
    assert read() == expected


@pytest.mark.parametrize(
    ("version", "body", "reason"),
    [
        # The bytes that follow it would also be a creation with an empty host.
        (3, "02 02 02 74 03 07 557365723a61 00 03 00 00 00",
         "host: expected a string, found null"),
        # Kafka 4.3.1 replaces invalid bytes by U+FFFD, and creates an ACL for another name.
        (1, "00000001 02 0002 fffe 03 0006 557365723a61 0001 2a 03 03", "resource_name: not UTF-8"),
    ],
)  # fmt: skip
def test_creation_with_an_invalid_text_is_rejected(version: int, body: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        finish(decode_create_acls(version, bytes.fromhex(body)))


def test_creations_that_are_longer_than_a_step_are_read() -> None:
    """They are also read behind usual ones, and before them."""
    usual = [Acl(2, f"topic-{number}", 3, "User:a", "*", 3, 3) for number in range(300)]
    long = [Acl(2, "x" * 9000, 3, "User:a", "*", 3, 3), Acl(2, "ü", 3, "User:a", "*", 3, 3)]
    asked = [*usual, *long, *usual]
    assert finish(decode_create_acls(3, create_body(3, asked))) == (asked, None)


@each_version
def test_null_name_is_literal_in_version_0(version: int) -> None:
    """Old clients see and remove only literal patterns."""
    everything = describe_body(version, AclFilter())
    expected = PatternType.LITERAL if version == 0 else PatternType.ANY
    assert decode_describe_acls(version, everything) == (AclFilter(pattern_type=expected), None)


@each_version
@some_examples
@given(acls=st.lists(acls(), min_size=1, max_size=2), filter=acl_filters)
def test_cut_request_is_rejected(version: int, acls: list[Acl], filter: AclFilter) -> None:
    check_cuts(partial(decode_describe_acls, version), describe_body(version, filter))
    check_cuts(lambda cut: finish(decode_create_acls(version, cut)), create_body(version, acls))
    check_cuts(lambda cut: finish(decode_delete_acls(version, cut)), delete_body(version, [filter]))


@pytest.mark.parametrize(
    ("version", "body"), [(1, "ffffffff"), (1, "7fffffff"), (3, "00"), (3, "ffffffff0f00")]
)
def test_impossible_count_is_rejected(version: int, body: str) -> None:
    with pytest.raises(DecodeError, match="creations: "):
        finish(decode_create_acls(version, bytes.fromhex(body)))
    with pytest.raises(DecodeError, match="filters: "):
        finish(decode_delete_acls(version, bytes.fromhex(body)))
    with pytest.raises(DecodeError, match="creations: "):
        count_items(ApiKey.CREATE_ACLS, version, bytes.fromhex(body))


@each_version
def test_count_without_enough_bytes_is_rejected(version: int) -> None:
    """Kafka, too, closes the connection."""
    for api_key, body in (
        (ApiKey.CREATE_ACLS, create_body(version, [Acl(2, "", 3, "", "", 3, 3)] * 100)),
        (ApiKey.DELETE_ACLS, delete_body(version, [AclFilter(2)] * 100)),
    ):
        head = 1 if version >= 2 else 4
        assert count_items(api_key, version, body) == 100
        for cut in (len(body) - 2, len(body) // 2, head + 100):
            with pytest.raises(DecodeError, match=": 100 items announced"):
                count_items(api_key, version, body[:cut])


@each_version
def test_large_request_is_read_in_steps(version: int) -> None:
    acl = Acl(2, "topic", 3, "User:a", "*", 3, 3)
    create = create_body(version, [acl] * 1000)
    assert finish(decode_create_acls(version, bytearray(create))) == ([acl] * 1000, None)
    # A step reads at most 8192 bytes: about 390 of these.
    assert len(list(decode_create_acls(version, create))) >= 1000 // 400
    delete = delete_body(version, [AclFilter()] * 1000)
    assert len(list(decode_delete_acls(version, delete))) >= 1000 // 64
