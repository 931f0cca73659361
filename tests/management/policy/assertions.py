"""Short ways to write assertions, what they mean by brute force, and strategies for them."""

from collections.abc import Collection, Iterator
from itertools import product

from hypothesis import strategies as st

from authorizerd.acl.model import (
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.acl.releases import ANY_RELEASE, RULES, ReleaseRules
from authorizerd.management.policy.words import Assertion, AtMost, Each, Everyone, Names, Who
from tests.oracles.scan import decide
from tests.support.strategies import HOSTS, PRINCIPALS

UNNAMED = "User:unnamed"
SUPER_USER = "User:super"
EVERY_PRINCIPAL = (*(each for each in PRINCIPALS if each != "User:*"), SUPER_USER, UNNAMED)
RANGES = ("10.0.0.0/8", "10.0.0.0/29", "10.0.0.7/32", "10.9.9.8/29", "0.0.0.0/0", "::/0", "::1/128")
UNCERTAIN = "1::%eth0/16"
SILENT_HOSTS = ("evil.example.com", "::1", "10.0.0.0/33")
"""Hosts of ACLs that never match."""
EVERY_HOST = (
    *(host for host in HOSTS if host != "*"),
    *("10.9.9.9", "10.0.0.2", "192.0.2.1", "0.0.0.0", "1:0:0:0:0:0:0:0"),
)
"""The addresses in ACLs, and one of each area into which ranges can divide the others."""
EVERY_NAME = tuple(
    "".join(letters) for size in (1, 2, 3) for letters in product("ab*z", repeat=size)
)
"""All names of up to three letters. ACLs have up to two, and never ``z``: so each class of names
that ACLs can tell apart has a name here."""


def assertion(
    who: Who | str, operations: str, *names: Names | str, type: str = "TOPIC", allowed: bool = True,
    hosts: tuple[str, ...] = (),
) -> Assertion:  # fmt: skip
    """Return an assertion: ``assertion("User:a", "READ WRITE", "orders", prefix("pay"))``."""
    return Assertion(
        who=Each((who,)) if isinstance(who, str) else who, is_allowed=allowed,
        operations=tuple(int(Operation[name]) for name in operations.split()),
        resource_type=ResourceType[type],
        names=tuple(Names(each) if isinstance(each, str) else each for each in names), hosts=hosts,
    )  # fmt: skip


def prefix(text: str) -> Names:
    return Names(text, is_prefix=True)


def holds(
    acls: Collection[Acl], super_users: Collection[str], allow_everyone: bool, asserted: Assertion,
    rules: ReleaseRules = ANY_RELEASE,
) -> bool:  # fmt: skip
    """Return whether the assertion holds for every principal, name and host of the universe.

    It does by each release that may judge.
    """
    if len(rules.releases) > 1:
        return all(
            holds(acls, super_users, allow_everyone, asserted, RULES[release])
            for release in rules.releases
        )

    def may(principal: str, *, on_stars: bool) -> Iterator[bool]:
        """Yield the answer for each operation, name and host."""
        for operation, name, host in product(
            asserted.operations, _names(asserted, on_stars), asserted.hosts or EVERY_HOST
        ):
            question = Question(principal, host, operation, asserted.resource_type, name)
            is_super = principal in super_users
            yield is_super or decide(acls, allow_everyone, question, rules)[0]

    match asserted.who:
        case Each(principals) if asserted.is_allowed:
            return all(all(may(each, on_stars=False)) for each in principals)
        case Each(principals):
            return not any(any(may(each, on_stars=True)) for each in principals)
        case Everyone():
            return all(all(may(each, on_stars=False)) for each in EVERY_PRINCIPAL)
        case AtMost(count, besides, besides_super_users):
            if any(may(UNNAMED, on_stars=True)):
                return False  # there is no end of such principals
            counted = set(EVERY_PRINCIPAL) - set(besides)
            if besides_super_users:
                counted -= set(super_users)
            return sum(any(may(each, on_stars=True)) for each in counted) <= count


def _names(asserted: Assertion, on_stars: bool) -> list[str]:
    return [
        name
        for names in asserted.names
        for name in (EVERY_NAME if names.is_prefix else (names.text,))
        if name.startswith(names.text)
        and (on_stars or names.text.startswith("*") or not name.startswith("*"))
    ]


releases = st.sampled_from((*RULES.values(), ANY_RELEASE))
names = st.text("ab*", min_size=1, max_size=2)
acls = st.builds(
    Acl,
    resource_type=st.just(ResourceType.TOPIC),
    resource_name=names,
    pattern_type=st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED, 0)),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from(HOSTS) | st.sampled_from((*RANGES, UNCERTAIN, *SILENT_HOSTS)),
    operation=st.sampled_from((Operation.ALL, Operation.READ, Operation.WRITE, 127)),
    permission_type=st.sampled_from(
        (PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY, 9)
    ),
)
regions = st.builds(Names, names) | st.builds(
    Names, st.text("ab*", max_size=2), is_prefix=st.just(True)
)
principals = st.lists(st.sampled_from(EVERY_PRINCIPAL), min_size=1, max_size=2, unique=True).map(
    tuple
)
each = st.builds(Each, principals)
at_most = st.builds(AtMost, st.integers(0, 3), principals | st.just(()), st.booleans())
assertions = st.builds(
    Assertion,
    who=each | each | at_most | at_most | st.just(Everyone()),
    is_allowed=st.just(True),
    operations=st.lists(
        st.sampled_from([int(Operation.READ), int(Operation.DESCRIBE)]),
        min_size=1, max_size=2, unique=True,
    ).map(tuple),
    resource_type=st.just(ResourceType.TOPIC),
    names=st.lists(regions, min_size=1, max_size=2, unique=True).map(tuple),
    hosts=st.just(()) | st.lists(
        st.sampled_from(EVERY_HOST), min_size=1, max_size=2, unique=True
    ).map(tuple),
) | st.builds(
    Assertion,
    who=each,
    is_allowed=st.just(False),
    operations=st.sampled_from([(int(Operation.READ),), (int(Operation.DESCRIBE),)]),
    resource_type=st.just(ResourceType.TOPIC),
    names=regions.map(lambda region: (region,)),
    hosts=st.just(()) | st.sampled_from(EVERY_HOST).map(lambda host: (host,)),
)  # fmt: skip
