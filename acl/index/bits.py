"""The weight of one binding in the index. A leaf of the index is the sum of its bindings' weights.

A leaf is an integer. Its lowest bits are an ALLOW bit for each operation code, then a DENY bit for
each. All widths follow from the codes of ``acl.model``. Kafka refuses a second id for the same
binding, so each bit represents exactly one binding, and adding or subtracting its weight cannot
carry. Above them is a 16-bit counter per operation, for ACLs that deny but have an unknown
permission type or pattern type. The index does not store these codes, so several such ACLs share a
counter: at most 254 * 255 + 254, which fits into 16 bits. The last counter is for ACLs that Kafka
cannot judge: such an ACL denies every operation to everyone.

A rule does not set the bits of the operations that it implies: several rules can imply the same
operation, so a removal could not clear the bit. Instead, the mask of a question (``ALLOWS``)
includes the operations that imply the one asked about.

Source: KIP-290; Kafka 4.3 StandardAuthorizerData.findResult.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from authorizerd.acl.model import (
    OPERATIONS,
    RESOURCE_TYPES,
    Acl,
    Operation,
    PatternType,
    PermissionType,
)

OPERATION_CODES: Final = range(max(Operation) + 1)

WEIGHTS_KEPT: Final = 4096

_DENY_SHIFT: Final = len(OPERATION_CODES)
_COUNTED_DENY_SHIFT: Final = 2 * len(OPERATION_CODES)
PLAIN_BITS: Final = (1 << _COUNTED_DENY_SHIFT) - 1
"""The ALLOW and DENY bits, without the counters."""
_COUNTED_DENY_LANE: Final = 16
# Each of these counters is wider, since it counts the rules of very many hosts or principals.
_WIDE_LANE: Final = 48
_UNJUDGEABLE_SHIFT: Final = _COUNTED_DENY_SHIFT + _COUNTED_DENY_LANE * len(OPERATION_CODES)
_SECOND_LANES: Final = _WIDE_LANE * len(OPERATION_CODES)
UNJUDGEABLE: Final = 1 << _UNJUDGEABLE_SHIFT
"""The weight of an ACL whose principal has no colon, in the leaf of ``User:*``."""
UNJUDGEABLE_BITS: Final = ((1 << _WIDE_LANE) - 1) << _UNJUDGEABLE_SHIFT


def weight(acl: Acl) -> int:
    """Return the weight of ``acl`` in its leaf, or 0 if it can neither allow nor deny."""
    if acl.operation not in OPERATION_CODES:
        return 0
    usual_pattern = acl.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
    if acl.permission_type == PermissionType.ALLOW:
        return 1 << acl.operation if usual_pattern else 0
    if acl.permission_type == PermissionType.DENY and usual_pattern:
        return 1 << (_DENY_SHIFT + acl.operation)
    return 1 << (_COUNTED_DENY_SHIFT + _COUNTED_DENY_LANE * acl.operation)


def is_unindexed(acl: Acl) -> bool:
    """Return True if the bits of the index cannot identify ``acl``, so that it must be listed."""
    return (
        acl.operation not in OPERATION_CODES
        or acl.permission_type not in (PermissionType.ALLOW, PermissionType.DENY)
        or acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
    )


class Weights(msgspec.Struct, frozen=True, gc=False):
    """The part of an ACL that the index stores.

    Attributes:
        rule: its weight in its leaf.
        host_denial: its weight in the denials counted over all hosts, if its host is one address.
        range_denial: the same, if its host is a range.
        in_range: its weight in the leaf of a network, if its host is a range.
        denial: 1 if it can deny, else 0.
        is_typed: whether the index contains its resource type.
        is_plain: whether it is typed and its bits identify it.
    """

    rule: int
    host_denial: int
    range_denial: int
    in_range: int
    denial: int
    is_typed: bool
    is_plain: bool


@lru_cache(maxsize=WEIGHTS_KEPT)
def weights_of(
    resource_type: int, pattern_type: int, operation: int, permission_type: int
) -> Weights:
    """Return the weights of every ACL with these codes. ACLs have few combinations of them."""
    acl = Acl(resource_type, "", pattern_type, "", "", operation, permission_type)
    rule = weight(acl)
    denies = rule != 0 and permission_type != PermissionType.ALLOW
    first = 1 << _WIDE_LANE * operation if rule else 0
    second = first << _SECOND_LANES
    is_typed = resource_type in RESOURCE_TYPES
    return Weights(
        rule=rule,
        host_denial=first if denies else 0,
        range_denial=second if denies else 0,
        in_range=first if denies else second,
        denial=1 if denies else 0,
        is_typed=is_typed,
        is_plain=is_typed and not is_unindexed(acl),
    )


_IMPLYING: Final[dict[int, tuple[Operation, ...]]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


def _lane(shift: int, width: int, operation: int) -> int:
    return ((1 << width) - 1) << (shift + width * operation)


def allowing_operations(operation: int) -> tuple[int, ...]:
    """Return the operations of ALLOW rules that allow ``operation``."""
    own = (operation,) if operation in OPERATIONS and operation != Operation.ALL else ()
    return (Operation.ALL, *own, *_IMPLYING.get(operation, ()))


def denying_operations(operation: int) -> tuple[int, ...]:
    """Return the operations of DENY rules that deny ``operation``. They imply nothing else."""
    own = (operation,) if operation in OPERATIONS and operation != Operation.ALL else ()
    return (Operation.ALL, *own)


def range_deny_bits(operation: int) -> int:
    """Return the bits of the leaf of a network that count DENYs of ``operation``."""
    return _lane(0, _WIDE_LANE, operation)


def range_allow_bits(operation: int) -> int:
    """Return the bits of the leaf of a network that count plain ALLOWs of ``operation``."""
    return _lane(_SECOND_LANES, _WIDE_LANE, operation)


def _any_of(*masks: int) -> int:
    joined = 0
    for mask in masks:
        joined |= mask
    return joined


ALLOWS: Final = tuple(
    _any_of(*(1 << rule for rule in allowing_operations(operation)))
    for operation in OPERATION_CODES
)
"""For each operation code: the bits of a leaf that allow the operation."""

DENIES: Final = tuple(
    _any_of(
        *(1 << (_DENY_SHIFT + rule) for rule in denying_operations(operation)),
        *(
            _lane(_COUNTED_DENY_SHIFT, _COUNTED_DENY_LANE, rule)
            for rule in denying_operations(operation)
        ),
        UNJUDGEABLE_BITS,
    )
    for operation in OPERATION_CODES
)
"""For each operation code: the bits of a leaf that deny the operation."""

HOST_DENIES: Final = tuple(
    _any_of(*map(range_deny_bits, denying_operations(operation))) for operation in OPERATION_CODES
)
"""For each operation code: the bits of ``host_denials`` by which single addresses are denied.

In the leaf of a network, these bits deny the operation.
"""

RANGE_DENIES: Final = tuple(mask << _SECOND_LANES for mask in HOST_DENIES)
"""For each operation code: the bits of ``host_denials`` by which ranges are denied."""

RANGE_ALLOWS: Final = tuple(
    _any_of(*map(range_allow_bits, allowing_operations(operation))) for operation in OPERATION_CODES
)
"""For each operation code: the bits of the leaf of a network that allow the operation."""


def allow_bit(operation: int) -> int:
    """Return the bit of a plain ALLOW of ``operation``."""
    return 1 << operation


def deny_bit(operation: int) -> int:
    """Return the bit of a plain DENY of ``operation``."""
    return 1 << (_DENY_SHIFT + operation)
