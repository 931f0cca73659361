"""Random ACLs, settings and questions that meet, and brute force over a small universe."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.errors import InvalidAclError
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.explanation.model import AclChange, Explanation
from authorizerd.acl.model import (
    CLUSTER_NAME,
    OPERATIONS,
    Acl,
    AclAdded,
    AclRemoved,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.acl.releases import ANY_RELEASE, RULES, ReleaseRules
from authorizerd.acl.snapshot import AclSnapshot, apply_changes, is_grant, with_rules
from authorizerd.acl.validation import validate_new_acl, validate_resource
from tests.acl.questions import questions
from tests.oracles import scan
from tests.support.acls import snapshot_of
from tests.support.strategies import HOSTS, PRINCIPALS, acls

OTHER_HOST = "10.9.9.9"
UNNAMED_HOST = "10.8.8.8"
ADDRESSES = (*(host for host in HOSTS if host != "*"), OTHER_HOST)
releases = st.sampled_from((*RULES.values(), ANY_RELEASE))
NEW_ID = b"\xff" * 16


@dataclass(frozen=True)
class Case:
    """A question, and what it is decided by."""

    held: frozenset[Acl]
    settings: AuthorizerSettings
    question: Question
    rules: ReleaseRules = ANY_RELEASE

    @cached_property
    def snapshot(self) -> AclSnapshot:
        return with_rules(snapshot_of(*self.held), self.rules)

    def explain(self) -> Explanation:
        return explain_fully(self.snapshot, self.settings, self.question)

    def is_allowed(self, held: Collection[Acl], question: Question) -> bool:
        """Return the answer by a plain scan."""
        if question.principal in self.settings.super_users:
            return True
        everyone = self.settings.allow_everyone_if_no_acl_found
        return scan.decide(held, everyone, question, self.rules)[0]


@st.composite
def cases(draw: st.DrawFn, *, unknown_codes: bool = True) -> Case:
    """Return a case. In most, the question is about an ACL."""
    held = draw(st.frozensets(acls(unknown_codes=unknown_codes), max_size=8))
    if draw(st.integers(0, 3)) == 0:
        held |= {replace(draw(acls(unknown_codes=unknown_codes)), principal="est")}
    asked = draw(questions() | st.builds(replace, questions(), principal=st.just("nobody")))
    if len(held) > 0 and draw(st.integers(0, 4)) > 0:
        about = draw(st.sampled_from(sorted(held, key=str)))
        if about.resource_type in range(2, 8):
            asked = replace(asked, resource_type=about.resource_type)
        if about.operation in range(16) and draw(st.booleans()):
            asked = replace(asked, operation=about.operation)
        asked = replace(
            asked, resource_name=about.resource_name + draw(st.sampled_from(["", "", "a", "*"]))
        )
    if asked.resource_type == ResourceType.CLUSTER:
        asked = replace(asked, resource_name=draw(st.sampled_from([CLUSTER_NAME, "c", ""])))
    settings = AuthorizerSettings(
        super_users=draw(st.sampled_from([frozenset(), frozenset(), frozenset({"User:b"})])),
        allow_everyone_if_no_acl_found=draw(st.booleans()),
    )
    return Case(held, settings, asked, draw(releases))


def flips(case: Case, snapshot: AclSnapshot, *, elsewhere: bool = False) -> bool:
    """Return True if ``snapshot`` gives the other answer, for an unknown host with every host.

    Args:
        elsewhere: compare only hosts that no DENY names that matches.
    """
    before = is_allowed(case.snapshot, case.settings, case.question)
    asked = with_hosts(case.question)
    if elsewhere:
        named = {
            each.host
            for each in case.held
            if not is_grant(each) and scan.speaks(each, case.question, case.rules)
        }
        hosts = {*ADDRESSES, UNNAMED_HOST} - named
        asked = [replace(case.question, host=host) for host in sorted(hosts)]
    return all(is_allowed(snapshot, case.settings, each) != before for each in asked)


def with_hosts(question: Question) -> list[Question]:
    """Return the question, and if its host is unknown, also the same with every host."""
    hosts = () if question.host is not None else ADDRESSES
    return [question, *(replace(question, host=host) for host in hosts)]


def change(snapshot: AclSnapshot, *changes: AclChange) -> AclSnapshot:
    for number, each in enumerate(changes):
        if each.adds:
            acl_id = NEW_ID[1:] + bytes((number,))
            snapshot = apply_changes(snapshot, [AclAdded(acl_id, each.acl)])
        else:
            (acl_id,) = (key for key, acl in snapshot.acls.items() if acl == each.acl)
            snapshot = apply_changes(snapshot, [AclRemoved(acl_id)])
    return snapshot


def is_creatable(acl: Acl) -> bool:
    try:
        validate_resource(acl)
        validate_new_acl(acl)
    except InvalidAclError:
        return False
    return True


def creatable_acls(question: Question) -> Iterator[Acl]:
    """Yield every ACL that Kafka accepts over a small universe around ``question``."""
    name = question.resource_name
    names = {"*", name, f"{name}a", f"{name}*", *(name[:size] for size in range(len(name)))}
    hosts = {"*", OTHER_HOST, "10.0.0.7", question.host or "*"}
    for pattern_name, pattern_type, principal, host, operation, permission in product(
        sorted(names),
        (PatternType.LITERAL, PatternType.PREFIXED),
        (question.principal, "User:*"),
        sorted(hosts),
        OPERATIONS,
        (PermissionType.DENY, PermissionType.ALLOW),
    ):
        acl = Acl(
            question.resource_type, pattern_name, pattern_type, principal, host, operation,
            permission,
        )  # fmt: skip
        if is_creatable(acl):
            yield acl


def is_narrower(one: Acl, other: Acl, names: frozenset[str]) -> bool:
    """Return True if no field of ``one`` covers more than that of ``other``, and one covers less.

    Args:
        names: the resource names by which patterns are compared.
    """
    pairs = [
        (_names(one.pattern_type, one.resource_name, names),
         _names(other.pattern_type, other.resource_name, names)),
        (_operations(one.operation, one.permission_type),
         _operations(other.operation, other.permission_type)),
        (_texts(one.principal, "User:*"), _texts(other.principal, "User:*")),
        (_texts(one.host, "*"), _texts(other.host, "*")),
    ]  # fmt: skip
    return all(ours <= theirs for ours, theirs in pairs) and any(
        ours < theirs for ours, theirs in pairs
    )


@lru_cache(maxsize=10_000)
def _names(pattern_type: int, pattern_name: str, names: frozenset[str]) -> frozenset[object]:
    acl = Acl(2, pattern_name, pattern_type, "User:*", "*", Operation.ALL, PermissionType.ALLOW)
    asked = Question("User:x", OTHER_HOST, Operation.READ, 2, "")
    return frozenset(name for name in names if scan.meets(acl, replace(asked, resource_name=name)))


@lru_cache(maxsize=1000)
def _operations(operation: int, permission_type: int) -> frozenset[object]:
    """Return the operations to which a rule applies."""
    acl = Acl(2, "t", PatternType.LITERAL, "User:*", "*", operation, permission_type)
    asked = Question("User:x", OTHER_HOST, Operation.READ, 2, "t")
    return frozenset(
        code for code in OPERATIONS if scan.speaks(acl, replace(asked, operation=code))
    )


@lru_cache(maxsize=1000)
def _texts(text: str, all_texts: str) -> frozenset[object]:
    """Return the principals or hosts that a rule names."""
    everything = {*PRINCIPALS, "nobody", *HOSTS, OTHER_HOST, "other"} - {"User:*", "*"}
    return frozenset(everything) if text == all_texts else frozenset({text})


def names_around(question: Question) -> frozenset[str]:
    """Return resource names by which the patterns around ``question`` differ."""
    name = question.resource_name
    others = ("", "*", "*a", "**", "a", "b", "zz", f"{name}a", f"{name}*", f"{name}aa")
    return frozenset(others) | {name[:size] for size in range(len(name) + 1)}
