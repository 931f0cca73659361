"""Small worlds to search: some ACLs and settings, and everything that can be asked about them."""

from dataclasses import dataclass
from functools import cached_property

from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.model import (
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.releases import ANY_RELEASE, RULES, ReleaseRules
from authorizerd.acl.snapshot import AclSnapshot, with_rules
from tests.support.acls import snapshot_of
from tests.support.strategies import HOSTS, PRINCIPALS, acls, crowd

ASKING = [*(each for each in PRINCIPALS if each != WILDCARD_PRINCIPAL), "User:unnamed"]
UNCERTAIN = "1::%eth0/16"
RANGES = ("10.0.0.0/8", "10.9.0.1/29", "10.0.0.0/29", "10.0.0.7/32", "0.0.0.0/0", "::/0", "::1/128")
SILENT_HOSTS = ("evil.example.com", "::1", "10.0.0.0/33", "0.0.0.0/32", "::ffff:10.0.0.0/104")
"""Hosts of ACLs that never match."""
FROM_HOSTS = [
    *(
        None,
        "10.9.9.9",
        "1:0:0:0:0:0:0:7",
        "10.0.0.2",
        "0.0.0.0",
        "192.0.2.1",
        "fe80:0:0:0:0:0:0:1%eth0",
    ),
    *(host for host in HOSTS if host != "*"),
]
OPERATIONS = [*[Operation.READ] * 8, *[Operation.DESCRIBE] * 4, *Operation]
"""Every operation. Those that `near_acls` are about occur most often."""
TYPES = [*[ResourceType.TOPIC] * 4, ResourceType.GROUP, ResourceType.USER, ResourceType.ANY]
NEAR_NAMES = ("*", "*", "a", "a", "aa", "aab", "*a", "*ab", "a*", "")
CROWD = frozenset(crowd())


@dataclass(frozen=True)
class World:
    """ACLs and settings."""

    held: frozenset[Acl]
    settings: AuthorizerSettings
    rules: ReleaseRules = ANY_RELEASE

    @cached_property
    def snapshot(self) -> AclSnapshot:
        return with_rules(snapshot_of(*self.held), self.rules)

    @cached_property
    def by_release(self) -> tuple[AclSnapshot, ...]:
        return tuple(with_rules(self.snapshot, RULES[each]) for each in self.rules.releases)

    def allows(
        self, principal: str, host: str | None, operation: int, resource_type: int, name: str
    ) -> bool:
        """Return whether a release allows it. Other tests compare decisions with a plain scan."""
        return any(
            authorize(each, self.settings, principal, host, operation, resource_type, name)
            for each in self.by_release
        )

    @property
    def probes(self) -> list[str]:
        """Names inside, just outside, and far from every pattern."""
        named = {acl.resource_name for acl in self.held - CROWD} | {"", "*", "aa", "c", "zz"}
        return sorted(
            {probe for name in named for probe in (name, f"{name}a", f"{name}*", name[:-1])}
        )


def near_acls() -> st.SearchStrategy[Acl]:
    """Return ACLs for topics that nearly always concern each other."""
    return st.builds(
        Acl,
        resource_type=st.just(ResourceType.TOPIC),
        resource_name=st.sampled_from(NEAR_NAMES),
        pattern_type=st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
        principal=st.sampled_from(("User:a", WILDCARD_PRINCIPAL)),
        host=st.sampled_from(HOSTS[:2]),
        operation=st.sampled_from((Operation.ALL, Operation.READ, Operation.READ)),
        permission_type=st.sampled_from((PermissionType.ALLOW, PermissionType.DENY)),
    )


def worlds() -> st.SearchStrategy[World]:
    """Return worlds of few ACLs, some of them with unknown codes, or of many."""
    near = st.frozensets(near_acls(), min_size=3, max_size=8)
    host = st.sampled_from((*HOSTS[:2], *RANGES, UNCERTAIN, *SILENT_HOSTS))
    ranges = st.frozensets(st.builds(replace_host, near_acls() | acls(), host), max_size=8)
    usual = st.frozensets(acls() | near_acls(), max_size=8)
    odd = st.frozensets(acls(unknown_codes=True) | near_acls(), max_size=8)
    held = near | usual | ranges | ranges | odd | usual.map(CROWD.union)
    settings = st.builds(
        AuthorizerSettings,
        super_users=st.frozensets(st.sampled_from(["User:b", "User:root"]), max_size=2),
        allow_everyone_if_no_acl_found=st.booleans(),
    )
    return st.builds(World, held, settings, st.sampled_from((*RULES.values(), ANY_RELEASE)))


def replace_host(changed: Acl, host: str) -> Acl:
    return replace(changed, host=host)
