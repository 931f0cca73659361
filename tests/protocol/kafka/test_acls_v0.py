"""Version 0 of the ACL messages: written by hand, and by Kafka 3.9."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.create_acls import v1 as create_v1
from kio.schema.delete_acls import v1 as delete_v1
from kio.schema.describe_acls import v1 as describe_v1
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i32Timedelta
from kio.static.protocol import Payload

from authorizerd.acl.model import Acl
from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka import acls, codec
from tests.support import acls_v0 as v0
from tests.support.kio_messages import written_by_kio

NOT_THROTTLED = i32Timedelta.parse(timedelta(0))

DESCRIBE_REQUEST = (
    "02"  # resource type: TOPIC
    "0001 74"  # resource name: t
    "ffff"  # principal: any
    "0001 2a"  # host: *
    "03"  # operation: READ
    "01"  # permission type: ANY
)
DESCRIBE_RESPONSE = (
    "00000000"  # throttle time
    "0000 ffff"  # no error, no text
    "00000001"  # one resource:
    "02 0001 74"  # TOPIC t, no pattern type
    "00000001"  # one entry:
    "0006 557365723a61"  # User:a
    "0001 2a"  # from any host
    "03 03"  # READ is ALLOWed
)
CREATE_REQUEST = (
    "00000001"  # one creation:
    "02 0001 74"  # TOPIC t, no pattern type
    "0006 557365723a61"  # User:a
    "0001 2a"  # from any host
    "03 03"  # READ is ALLOWed
)
CREATE_RESPONSE = (
    "00000000"  # throttle time
    "00000002"  # two results:
    "0000 0000"  # no error, an empty text
    "002a 0002 6e6f"  # INVALID_REQUEST: no
)
DELETE_REQUEST = "00000001" + DESCRIBE_REQUEST
DELETE_RESPONSE = (
    "00000000"  # throttle time
    "00000001"  # one filter:
    "0000 ffff"  # no error, no text
    "00000001"  # one match:
    "0000 ffff"  # removed
    "02 0001 74"  # TOPIC t, no pattern type
    "0006 557365723a61"  # User:a
    "0001 2a"  # from any host
    "03 03"  # READ is ALLOWed
)

CODES = {"operation": i8(3), "permission_type": i8(3)}
READ_FOR_A = {"principal": "User:a", "host": "*", **CODES}
TOPIC = {"resource_type": i8(2), "resource_name": "t"}
FILTER = {
    "resource_type_filter": i8(2),
    "resource_name_filter": "t",
    "principal_filter": None,
    "host_filter": "*",
    "operation": i8(3),
    "permission_type": i8(1),
}
SUCCESS = {"error_code": ErrorCode.none, "error_message": None}

MESSAGES: list[tuple[str, Payload]] = [
    (DESCRIBE_REQUEST, v0.DescribeAclsRequest(**FILTER)),  # type: ignore[arg-type]
    (
        DESCRIBE_RESPONSE,
        v0.DescribeAclsResponse(
            throttle_time=NOT_THROTTLED,
            resources=(
                v0.DescribeAclsResource(
                    **TOPIC,  # type: ignore[arg-type]
                    acls=(v0.AclDescription(**READ_FOR_A),),  # type: ignore[arg-type]
                ),
            ),
            **SUCCESS,  # type: ignore[arg-type]
        ),
    ),
    (
        CREATE_REQUEST,
        v0.CreateAclsRequest(creations=(v0.AclCreation(**TOPIC, **READ_FOR_A),)),  # type: ignore[arg-type]
    ),
    (
        CREATE_RESPONSE,
        v0.CreateAclsResponse(
            throttle_time=NOT_THROTTLED,
            results=(
                v0.AclCreationResult(error_code=ErrorCode.none, error_message=""),
                v0.AclCreationResult(error_code=ErrorCode.invalid_request, error_message="no"),
            ),
        ),
    ),
    (DELETE_REQUEST, v0.DeleteAclsRequest(filters=(v0.DeleteAclsFilter(**FILTER),))),  # type: ignore[arg-type]
    (
        DELETE_RESPONSE,
        v0.DeleteAclsResponse(
            throttle_time=NOT_THROTTLED,
            filter_results=(
                v0.DeleteAclsFilterResult(
                    **SUCCESS,  # type: ignore[arg-type]
                    matching_acls=(v0.DeleteAclsMatchingAcl(**SUCCESS, **TOPIC, **READ_FOR_A),),  # type: ignore[arg-type]
                ),
            ),
        ),
    ),
]
# What Kafka 3.9.1's generated classes, the last to know version 0, wrote for the same values.
JAVA = [
    "02000174ffff00012a0301",
    "000000000000ffff0000000102000174000000010006557365723a6100012a0303",
    "00000001020001740006557365723a6100012a0303",
    "000000000000000200000000002a00026e6f",
    "0000000102000174ffff00012a0301",
    "00000000000000010000ffff000000010000ffff020001740006557365723a6100012a0303",
]


NAMES = ("DescribeAcls", "CreateAcls", "DeleteAcls")
CLASSES = [getattr(acls, f"{name}{kind}") for name in NAMES for kind in ("Request", "Answer")]


@pytest.mark.parametrize(
    ("text", "entity", "message"),
    [(*each, kind) for each, kind in zip(MESSAGES, CLASSES, strict=True)],
)
def test_version_0_has_the_fields_of_kip_140(
    text: str, entity: Payload, message: type[Any]
) -> None:
    body = bytes.fromhex(text)
    assert written_by_kio(entity) == body
    read = finish(codec.decode(message, 0, body, flexible=False, is_exact=True))
    if message is acls.DescribeAclsAnswer:
        assert [*map(str, read.acls)] == [str(Acl(2, "t", 3, "User:a", "*", 3, 3))]
        return
    assert b"".join(finish(codec.encode(message, 0, read, flexible=False))) == body


def test_version_0_equals_kafkas_bytes() -> None:
    assert [bytes.fromhex(text).hex() for text, _ in MESSAGES] == JAVA


@pytest.mark.parametrize(
    ("old", "new", "pattern_type"),
    [
        (v0.DescribeAclsRequest, describe_v1.DescribeAclsRequest, "pattern_type_filter"),
        (v0.DescribeAclsResponse, describe_v1.DescribeAclsResponse, None),
        (v0.DescribeAclsResource, describe_v1.response.DescribeAclsResource, "pattern_type"),
        (v0.AclDescription, describe_v1.response.AclDescription, None),
        (v0.CreateAclsRequest, create_v1.CreateAclsRequest, None),
        (v0.AclCreation, create_v1.request.AclCreation, "resource_pattern_type"),
        (v0.CreateAclsResponse, create_v1.CreateAclsResponse, None),
        (v0.AclCreationResult, create_v1.response.AclCreationResult, None),
        (v0.DeleteAclsRequest, delete_v1.DeleteAclsRequest, None),
        (v0.DeleteAclsFilter, delete_v1.request.DeleteAclsFilter, "pattern_type_filter"),
        (v0.DeleteAclsResponse, delete_v1.DeleteAclsResponse, None),
        (v0.DeleteAclsFilterResult, delete_v1.response.DeleteAclsFilterResult, None),
        (v0.DeleteAclsMatchingAcl, delete_v1.response.DeleteAclsMatchingAcl, "pattern_type"),
    ],
)
def test_version_1_adds_only_the_pattern_type(
    old: type[object], new: type[object], pattern_type: str | None
) -> None:
    """Source: KIP-290."""
    names = list(new.__annotations__)
    if pattern_type is not None:
        names.remove(pattern_type)
    instance_fields = [name for name in names if not name.startswith("__")]
    assert [name for name in old.__annotations__ if not name.startswith("__")] == instance_fields
