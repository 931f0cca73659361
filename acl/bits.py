"""The weight of one binding in the index. A leaf of the index is the sum of its bindings' weights.

A leaf is an integer. Its lowest 32 bits are 16 ALLOW bits and 16 DENY bits, one per operation code.
Kafka refuses a second id for the same binding, so each bit represents exactly one binding, and
adding or subtracting its weight cannot carry. Above them is a 16-bit counter per operation, for
ACLs that deny but have an unknown permission type or pattern type. The index does not store these
codes, so several such ACLs share a counter: at most 254 * 255 + 254, which fits into 16 bits.

Why does a rule not set the bits of the operations that it implies? Several rules can imply the same
operation, so a removal could not undo it. Instead, the mask of a question (``ALLOWS``) includes the
operations that imply the one asked about.

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

OPERATION_CODES: Final = range(16)

WEIGHTS_KEPT: Final = 4096

_DENY_SHIFT: Final = 16
_COUNTED_DENY_SHIFT: Final = 32
PLAIN_BITS: Final = (1 << _COUNTED_DENY_SHIFT) - 1
"""The ALLOW and DENY bits, without the counters."""
_COUNTED_DENY_LANE: Final = 16
# Each counter of ``host_denials`` is wider, since it counts the rules of very many hosts.
_HOST_DENY_LANE: Final = 48


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


def host_denial_weight(acl: Acl) -> int:
    """Return the weight of ``acl``, a rule for one host, in the denials counted over all hosts."""
    if acl.operation not in OPERATION_CODES or acl.permission_type == PermissionType.ALLOW:
        return 0
    return 1 << (_HOST_DENY_LANE * acl.operation)


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
        host_denial: its weight in the denials counted over all hosts, if it is a rule for one host.
        denial: 1 if it can deny, else 0.
        is_typed: whether the index contains its resource type.
        is_plain: whether it is typed and its bits identify it.
    """

    rule: int
    host_denial: int
    denial: int
    is_typed: bool
    is_plain: bool


@lru_cache(maxsize=WEIGHTS_KEPT)
def weights_of(
    resource_type: int, pattern_type: int, operation: int, permission_type: int
) -> Weights:
    """Return the weights of every ACL with these codes. ACLs have few combinations of them."""
    acl = Acl(resource_type, "", pattern_type, "", "", operation, permission_type)
    rule, host_denial = weight(acl), host_denial_weight(acl)
    is_typed = resource_type in RESOURCE_TYPES
    is_plain = is_typed and not is_unindexed(acl)
    return Weights(rule, host_denial, 1 if host_denial else 0, is_typed, is_plain)


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
    )
    for operation in OPERATION_CODES
)
"""For each operation code: the bits of a leaf that deny the operation."""

HOST_DENIES: Final = tuple(
    _any_of(*(_lane(0, _HOST_DENY_LANE, rule) for rule in denying_operations(operation)))
    for operation in OPERATION_CODES
)
"""For each operation code: the bits of ``host_denials`` that deny the operation."""


def allow_bit(operation: int) -> int:
    """Return the bit of a plain ALLOW of ``operation``."""
    return 1 << operation


def deny_bit(operation: int) -> int:
    """Return the bit of a plain DENY of ``operation``."""
    return 1 << (_DENY_SHIFT + operation)
