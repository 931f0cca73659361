"""Version 0 of the ACL messages, byte by byte as Kafka 3.9 wrote them."""

from collections.abc import Callable
from typing import Any

import pytest
from kio.serial import entity_reader

from authorizerd.acl.model import AclFilter, PatternType
from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka import acls, codec
from authorizerd.protocol.kafka.acls import FilterResult, MatchingAcl
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError
from tests.support.acls import acl
from tests.support.kio_messages import request_type, response_type, written_by_kio

READ_T = acl("User:a", "READ", topic="t")
FILTER = AclFilter(2, "t", PatternType.LITERAL, None, "*", 3, 1)
# Topic t without a type of pattern; READ is allowed to User:a from any host.
TOPIC, ENTRY = "02 0001 74", "0006 557365723a61 0001 2a 03 03"
WANTED = f"{TOPIC} ffff 0001 2a 03 01"
NOT_THROTTLED, ONE, SUCCESS = "00000000", "00000001", "0000 ffff"

# What Kafka 3.9.1's generated classes, the last to know version 0, wrote, and what it means.
MESSAGES: dict[str, tuple[str, Callable[[Any], object], object]] = {
    "DescribeAclsRequest": (WANTED, lambda read: read.filter, FILTER),
    "DescribeAclsAnswer": (
        f"{NOT_THROTTLED} {SUCCESS} {ONE} {TOPIC} {ONE} {ENTRY}",
        lambda read: [*read.acls], [READ_T],
    ),
    "CreateAclsRequest": (f"{ONE} {TOPIC} {ENTRY}", lambda read: [*read.creations], [READ_T]),
    "CreateAclsAnswer": (
        f"{NOT_THROTTLED} 00000002 0000 0000 002a 0002 6e6f",
        lambda read: [*read.results], [None, ApiError(42, "no")],
    ),
    "DeleteAclsRequest": (f"{ONE} {WANTED}", lambda read: [*read.filters], [FILTER]),
    "DeleteAclsAnswer": (
        f"{NOT_THROTTLED} {ONE} {SUCCESS} {ONE} {SUCCESS} {TOPIC} {ENTRY}",
        lambda read: [*read.results], [FilterResult(matches=[MatchingAcl(acl=READ_T)])],
    ),
}  # fmt: skip
KEYS = {
    "Describe": ApiKey.DESCRIBE_ACLS,
    "Create": ApiKey.CREATE_ACLS,
    "Delete": ApiKey.DELETE_ACLS,
}


@pytest.mark.parametrize("name", MESSAGES)
def test_version_0_has_kafkas_bytes(name: str) -> None:
    """Kafka's fields are those of KIP-140, whose listings differ from the released messages."""
    text, find, expected = MESSAGES[name]
    body, message = bytes.fromhex(text), getattr(acls, name)
    read = finish(codec.decode(message, 0, body, flexible=False, is_exact=True))
    assert find(read) == expected
    if name != "DescribeAclsAnswer":  # a listing is grouped when it is written
        assert b"".join(finish(codec.encode(message, 0, read, flexible=False))) == body
    find_type = request_type if name.endswith("Request") else response_type
    entity, size = entity_reader(find_type(KEYS[name.partition("Acls")[0]], 0))(body, 0)
    assert size == len(body)
    assert written_by_kio(entity) == body
