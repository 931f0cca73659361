"""The sets for all measurements: ACLs, and questions about them.

**Invariant:** a set is the same on every machine and in every run; nothing in it is random.

``kind`` has many principals and few rules for each name. ``wide`` has few principals, and one rule
on the literal ``*`` for every ten resources. ``ranges`` has principals with ranges of hosts.
``crowd`` can have any size: of 5,000,000 ACLs, 100,000 principals have 39 each, one principal has
1,000,000, and the rest deny 100,000 hosts. Every number is proportional to the size, except those
that belong to a single principal or domain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclAdded,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.protocol.records.metadata import ID_SIZE

QUESTIONS: Final = 1000
MANY_QUESTIONS: Final = 50_000
"""More distinct questions than a cache would keep."""
HOST: Final = "127.0.0.1"

_TOPICS: Final = 10_000
_PREFIXES: Final = 200
_USERS: Final = 500
STRIDE: Final = 7919
"""A prime, so that its multiples reach every topic once, in a scattered order."""


def number_acls(acls: Iterable[Acl]) -> Iterator[AclAdded]:
    """Yield the ACLs with ids that look random, as Kafka's do."""
    for number, acl in enumerate(acls):
        yield AclAdded(hashlib.blake2b(b"%d" % number, digest_size=ID_SIZE).digest(), acl)


@dataclass(frozen=True, slots=True)
class AclSet:
    """A set; each call of ``acls`` and ``questions`` returns a new iterator."""

    name: str
    acls: Callable[[], Iterator[Acl]]
    questions: Callable[[], Iterator[Question]]

    def added(self) -> Iterator[AclAdded]:
        """Return the ACLs with ids that look random, as Kafka's do."""
        return number_acls(self.acls())


def kind(questions: int = QUESTIONS) -> AclSet:
    """Return 10,000 topics with two literal ACLs each, and 200 prefixes.

    Prefixes ``topic-000`` to ``topic-099`` cover a hundred topics each, the others none. Of ten
    questions, four match a literal, one an implied operation, two a prefix; three are denied.
    """
    return AclSet("kind", _kind_acls, partial(_kind_questions, questions))


def allow(
    name: str,
    principal: str,
    operation: Operation = Operation.READ,
    pattern_type: PatternType = PatternType.LITERAL,
    host: str = WILDCARD,
    resource_type: ResourceType = ResourceType.TOPIC,
) -> Acl:
    """Return an ACL that allows an operation."""
    allowed = PermissionType.ALLOW
    return Acl(resource_type, name, pattern_type, principal, host, operation, allowed)


def _kind_acls() -> Iterator[Acl]:
    for topic in range(_TOPICS):
        user = topic % _USERS
        yield allow(f"topic-{topic:05d}", f"User:u{user}")
        yield allow(f"topic-{topic:05d}", f"User:w{user}", Operation.WRITE)
    for prefix in range(_PREFIXES):
        yield allow(f"topic-{prefix:03d}", f"User:p{prefix}", Operation.READ, PatternType.PREFIXED)


def _kind_questions(count: int) -> Iterator[Question]:
    """Yield distinct questions.

    They cover all topics repeatedly, each time from a different host and mostly for a different
    principal.
    """
    for number in range(count):
        topic, reached = number * STRIDE % _TOPICS, number // _TOPICS
        name = f"topic-{topic:05d}"
        reader = f"User:u{topic % _USERS}"
        operation = Operation.READ
        match (number + 2 * reached) % 10:
            case 0 | 1 | 2 | 3:
                principal = reader
            case 4:
                principal, operation = f"User:w{topic % _USERS}", Operation.DESCRIBE
            case 5 | 6:
                principal = f"User:p{topic // 100}"
            case 7 | 8:
                principal = f"User:u{(topic + 1) % _USERS}"
            case _:
                principal, name = reader, f"nope-{topic:05d}"
        host = f"127.0.0.{1 + reached}"
        yield Question(principal, host, operation, ResourceType.TOPIC, name)


def wide(resources: int, acls_each: int) -> AclSet:
    """Return ``resources`` resources with ``acls_each`` ACLs each, and a tenth as many on ``*``.

    One principal asks all questions. Half of the rules on ``*`` are for everyone but from another
    host, half are for another principal, so none of them ever applies.
    """
    assert resources >= QUESTIONS, "each question is about a different resource"
    return AclSet(
        f"wide-{resources}-{acls_each}",
        partial(_wide_acls, resources, acls_each),
        partial(_wide_questions, resources),
    )


def _wide_name(resource: int) -> str:
    return f"foo-bar35_resource-{resource}"


def _wide_acls(resources: int, acls_each: int) -> Iterator[Acl]:
    for resource in range(resources):
        resource_type = ResourceType.TOPIC if resource % 10 else ResourceType.GROUP
        pattern_type = PatternType.LITERAL if resource % 5 else PatternType.PREFIXED
        for user in range(acls_each):
            # The first principal is User:test-user, which asks all questions.
            principal = f"User:test-user{user or ''}"
            yield allow(
                _wide_name(resource), principal, Operation.READ, pattern_type, WILDCARD,
                resource_type,
            )  # fmt: skip
    for other in range(resources // 10):
        if other % 2:
            yield allow(WILDCARD, f"User:wild-{other}")
        else:
            host = f"10.{other >> 16 & 255}.{other >> 8 & 255}.{other & 255}"
            yield allow(WILDCARD, WILDCARD_PRINCIPAL, host=host)


def _wide_questions(resources: int) -> Iterator[Question]:
    step = resources // QUESTIONS
    for number in range(QUESTIONS):
        # Plain multiples of the step would all be prefixes if it is 5 or 50 (``_wide_acls``).
        name = _wide_name(number * step + number % step)
        yield Question("User:test-user", HOST, Operation.READ, ResourceType.TOPIC, name)


def ranges(each: int) -> AclSet:
    """Return ``kind`` plus 20 principals, each of which may read its own prefix from its ranges.

    There are five lengths of IPv4 ranges and one of IPv6; every tenth range is denied. Of ten
    questions, seven are from a host in a range, three from a host in none. All have different
    names. Without ranges, the principals may read from any host.
    """
    return AclSet(
        f"ranges-{each}", partial(_ranges_acls, each), partial(_ranges_questions, max(each, 1))
    )


_RANGED: Final = 20
_RANGES_MAX: Final = 1024
_LENGTHS: Final = (20, 22, 24, 26, 28)


def _range(app: int, number: int) -> tuple[str, str]:
    """Return a range that overlaps no other range, and the start of its addresses."""
    if number % 6 == 5:
        start = f"2001:db8:{app + 1:x}:{number:x}::"
        return f"{start}/64", start
    # Ranges begin every 4,096 addresses from 10.0.0.0.
    first = (10 << 24) + (app * _RANGES_MAX + number << 12)
    start = f"{first >> 24}.{first >> 16 & 255}.{first >> 8 & 255}."
    return f"{start}0/{_LENGTHS[number % 6]}", start


def _ranges_acls(each: int) -> Iterator[Acl]:
    yield from _kind_acls()
    for app in range(_RANGED):
        hosts = [_range(app, number)[0] for number in range(each)] or [WILDCARD]
        for number, host in enumerate(hosts):
            acl = allow(
                f"app-{app:02}-", f"User:app{app}", Operation.READ, PatternType.PREFIXED, host
            )
            is_denied = number % 10 == 9
            yield replace(acl, permission_type=PermissionType.DENY) if is_denied else acl


def _ranges_questions(each: int) -> Iterator[Question]:
    for number in range(QUESTIONS):
        app = number % _RANGED
        if number // _RANGED % 10 < 7:
            host = f"{_range(app, number * STRIDE % each)[1]}{1 + number % 14}"
        else:
            host = f"172.16.{number >> 8}.{number & 255}"
        name = f"app-{app:02}-topic-{number:04}"
        yield Question(
            f"User:app{app}", str(host_address(host)), Operation.READ, ResourceType.TOPIC, name
        )


UNIT: Final = 50
"""A size is a multiple of this: one principal, one denied host, and ten topics."""
GREATEST: Final = "User:every-topic"
"""The principal with a fifth of all ACLs: one for each topic."""

_TOPICS_EACH: Final = 28
_GROUPS_EACH: Final = 10
_UNITS_PER_DOMAIN: Final = 100
_CROWD_OPERATIONS: Final = (Operation.READ, Operation.WRITE, Operation.DESCRIBE)


def crowd(acls: int, questions: int = MANY_QUESTIONS) -> AclSet:
    """Return a set of exactly ``acls`` ACLs, a multiple of ``UNIT``.

    Of ten questions, six are allowed by a rule of the principal's own, by a prefix or a literal,
    one by a rule of the greatest principal, and one by a group's. One is denied because of its
    host, and one because no rule matches.
    """
    units = acls // UNIT
    assert acls % UNIT == 0, f"a size is a multiple of {UNIT}"
    assert units % _domains(units) == 0, "every domain has the same number of principals"
    return AclSet(
        f"crowd-{acls}", partial(_crowd_acls, units), partial(_crowd_questions, units, questions)
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


def _crowd_acls(units: int) -> Iterator[Acl]:
    prefixed, group = PatternType.PREFIXED, ResourceType.GROUP
    for number in range(units):
        principal = _user(number)
        yield allow(_domain(units, number), principal, pattern_type=prefixed)
        for rule in range(_TOPICS_EACH):
            yield allow(_topic_of(units, number, rule), principal, _CROWD_OPERATIONS[rule % 3])
        for rule in range(_GROUPS_EACH):
            yield allow(_group_of(number, rule), principal, resource_type=group)
    for number in range(10 * units):
        yield allow(_topic(units, number), GREATEST)
    for number in range(units):
        name, denied = _domain(units, number), _host(number)
        acl = allow(name, WILDCARD_PRINCIPAL, Operation.ALL, prefixed, denied)
        yield replace(acl, permission_type=PermissionType.DENY)


def _crowd_questions(units: int, count: int) -> Iterator[Question]:
    """Yield questions, which differ in host or name, so all are distinct."""
    for number in range(count):
        principal = number * STRIDE % units
        rule = number // 10 % _TOPICS_EACH
        name, operation = _topic_of(units, principal, rule), _CROWD_OPERATIONS[rule % 3]
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
