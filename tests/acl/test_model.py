"""Kafka's codes and their members, and the operations of each resource type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, Code, Operation, PatternType, PermissionType, ResourceType
from authorizerd.acl.operations import NOT_REQUESTED, SUPPORTED, bit_field


@pytest.mark.parametrize("kind", [ResourceType, PatternType, Operation, PermissionType])
@given(code=st.integers(-128, 127))
def test_every_code_reads_as_a_member(kind: type[Code], code: int) -> None:
    """An unknown code reads as UNKNOWN, never as an error."""
    read = kind.read(code)
    assert read == (code if 0 <= code < len(kind) else 0)
    assert kind.named(read.name) is read


def test_the_codes_are_kafkas() -> None:
    """A wrong code would turn one right into another."""
    assert " ".join(operation.name for operation in Operation) == (
        "UNKNOWN ANY ALL READ WRITE CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS "
        "ALTER_CONFIGS IDEMPOTENT_WRITE CREATE_TOKENS DESCRIBE_TOKENS TWO_PHASE_COMMIT"
    )
    assert " ".join(kind.name for kind in ResourceType) == (
        "UNKNOWN ANY TOPIC GROUP CLUSTER TRANSACTIONAL_ID DELEGATION_TOKEN USER"
    )
    assert (PatternType.LITERAL, PatternType.PREFIXED) == (3, 4)
    assert (PermissionType.DENY, PermissionType.ALLOW) == (2, 3)


def test_raw_codes_are_kept_and_read_as_unknown() -> None:
    """Codes of later versions can be written back unchanged."""
    acl = Acl(99, "t", -5, "User:a", "*", 77, 55)
    assert (acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type) == (
        99,
        -5,
        77,
        55,
    )
    assert str(acl) == (
        "StandardAcl[resourceType=UNKNOWN, resourceName=t, patternType=UNKNOWN, principal=User:a, "
        "host=*, operation=UNKNOWN, permissionType=UNKNOWN]"
    )


def test_an_unknown_name_is_none() -> None:
    """Names are exact, and belong to the enumeration itself."""
    assert Operation.named("read") is None
    assert Operation.named("TOPIC") is None
    assert Operation.named("_value2member_map_") is None


def test_the_bit_of_an_operation_is_its_code() -> None:
    """KIP-430: READ, WRITE and DESCRIBE give 2^3 + 2^4 + 2^8."""
    assert bit_field([Operation.READ, Operation.WRITE, Operation.DESCRIBE]) == 8 + 16 + 256
    assert bit_field([]) == 0


def test_each_type_supports_kafkas_operations() -> None:
    """Kafka 4.3's table, which differs from the KIP's."""
    assert bit_field(SUPPORTED[ResourceType.TOPIC]) == 0b110111111000
    assert bit_field(SUPPORTED[ResourceType.GROUP]) == 0b110101001000
    assert bit_field(SUPPORTED[ResourceType.CLUSTER]) == 0b1111110100000
    assert bit_field(SUPPORTED[ResourceType.TRANSACTIONAL_ID]) == 1 << 4 | 1 << 8 | 1 << 15
    assert bit_field(SUPPORTED[ResourceType.DELEGATION_TOKEN]) == 1 << 8
    assert bit_field(SUPPORTED[ResourceType.USER]) == 1 << 13 | 1 << 14


def test_every_resource_type_has_its_operations() -> None:
    """ALL is never listed."""
    assert set(SUPPORTED) == set(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
    assert all(Operation.ALL not in operations for operations in SUPPORTED.values())


def test_not_requested_is_the_least_int32() -> None:
    """No set of operations has this value."""
    assert NOT_REQUESTED == -2_147_483_648
