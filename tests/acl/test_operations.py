"""Supported operations and KIP-430's bit field."""

from __future__ import annotations

from authorizerd.acl.model import Operation, ResourceType
from authorizerd.acl.operations import NOT_REQUESTED, SUPPORTED, bit_field


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
