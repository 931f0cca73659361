"""One kind of set at any size: many principals, one with a fifth of all ACLs, hosts in denials.

With 5,000,000 ACLs, these are 100,000 principals with 39 ACLs each, one principal with 1,000,000,
and denials of 100,000 hosts. Every number is in proportion to the size, except those that belong to
one principal or domain.

**Invariant:** a set is the same on every machine and in every run; nothing in it is random.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from authorizerd.acl.model import (
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from tools.bench.sets import MANY_QUESTIONS, STRIDE, AclSet, allow

UNIT: Final = 50
"""A size is a multiple of this: one principal, one denied host, and ten topics."""
GREATEST: Final = "User:every-topic"
"""The principal with a fifth of all ACLs: one for each topic."""

_TOPICS_EACH: Final = 28
_GROUPS_EACH: Final = 10
_UNITS_PER_DOMAIN: Final = 100
_OPERATIONS: Final = (Operation.READ, Operation.WRITE, Operation.DESCRIBE)


def crowd(acls: int, questions: int = MANY_QUESTIONS) -> AclSet:
    """Return a set of exactly ``acls`` ACLs, a multiple of ``UNIT``.

    Of ten questions, six are allowed by a rule of the principal's own, by a prefix or a literal,
    one by a rule of the greatest principal, and one by a group's. One is denied because of its
    host, and one because no rule matches.
    """
    units = acls // UNIT
    assert acls % UNIT == 0, f"a size is a multiple of {UNIT}"
    assert units % _domains(units) == 0, "every domain has as many principals"
    return AclSet(
        f"crowd-{acls}", partial(_make_acls, units), partial(_make_questions, units, questions)
    )


def _domains(units: int) -> int:
    return max(1, units // _UNITS_PER_DOMAIN)


def _domain(units: int, number: int) -> str:
    """Return a prefix of many topics."""
    return f"domain-{number % _domains(units):04d}."


def _topic(units: int, number: int) -> str:
    return f"{_domain(units, number)}topic-{number:07d}"


def _topic_of(units: int, principal: int, rule: int) -> str:
    """Return a topic that a principal has a rule for."""
    return _topic(units, (principal * _TOPICS_EACH + rule) * STRIDE % (10 * units))


def _group_of(principal: int, rule: int) -> str:
    return f"group-{principal * _GROUPS_EACH + rule:07d}"


def _user(number: int) -> str:
    return f"User:service-{number:06d}"


def _host(number: int) -> str:
    """Return the address of a denied host."""
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _make_acls(units: int) -> Iterator[Acl]:
    prefixed, group = PatternType.PREFIXED, ResourceType.GROUP
    for number in range(units):
        principal = _user(number)
        yield allow(_domain(units, number), principal, pattern_type=prefixed)
        for rule in range(_TOPICS_EACH):
            yield allow(_topic_of(units, number, rule), principal, _OPERATIONS[rule % 3])
        for rule in range(_GROUPS_EACH):
            yield allow(_group_of(number, rule), principal, resource_type=group)
    for number in range(10 * units):
        yield allow(_topic(units, number), GREATEST)
    for number in range(units):
        name, denied = _domain(units, number), _host(number)
        acl = allow(name, WILDCARD_PRINCIPAL, Operation.ALL, prefixed, denied)
        yield replace(acl, permission_type=PermissionType.DENY)


def _make_questions(units: int, count: int) -> Iterator[Question]:
    """Yield questions; each is from another host or about another name, so all are distinct."""
    for number in range(count):
        principal = number * STRIDE % units
        rule = number // 10 % _TOPICS_EACH
        name, operation = _topic_of(units, principal, rule), _OPERATIONS[rule % 3]
        asked, resource_type = _user(principal), ResourceType.TOPIC
        asked_from, new = f"192.168.{number >> 8 & 255}.{number & 255}", f"new-{number}"
        match number % 10:
            case 0:
                asked, operation = GREATEST, Operation.READ
            case 1:
                name = f"{_domain(units, principal)}{new}"
                operation = Operation.DESCRIBE  # which READ of the prefix implies
            case 2:
                name, operation = f"{_domain(units, principal)}{new}", Operation.READ
                # Hosts are numbered as principals are, so this one is denied in the same domain.
                asked_from = _host((principal + number // 10 * _domains(units)) % units)
            case 3:
                name = new
            case 4:
                resource_type, operation = ResourceType.GROUP, Operation.READ
                name = _group_of(principal, rule % _GROUPS_EACH)
            case _:
                pass
        yield Question(asked, asked_from, operation, resource_type, name)
