"""The decision, compared with a plain scan, and the cases that a scan cannot check."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authorizerd.acl import deciding, matching
from authorizerd.acl.decision import (
    AuthorizerSettings,
    Decision,
    DefaultRule,
    MatchingAcl,
    authorize,
    explain,
)
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.index.builder import build
from authorizerd.acl.matching import matching_acls
from authorizerd.acl.model import (
    Acl,
    AclAdded,
    AclRemoved,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.acl.snapshot import AclSnapshot, apply_changes
from tests.acl.questions import questions
from tests.oracles import scan
from tests.support.acls import snapshot_of
from tests.support.strategies import acls, crowd

ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
NOBODY = AuthorizerSettings()
CROWD = set(crowd())


def read(
    name: str = "t",
    pattern_type: int = LITERAL,
    permission: int = ALLOW,
    *,
    principal: str = "User:a",
    host: str = "*",
    operation: int = Operation.READ,
) -> Acl:
    return Acl(ResourceType.TOPIC, name, pattern_type, principal, host, operation, permission)


def ask(
    name: str = "t",
    *,
    principal: str = "User:a",
    host: str | None = "10.0.0.1",
    operation: int = Operation.READ,
) -> Question:
    return Question(principal, host, operation, ResourceType.TOPIC, name)


def some_acls() -> st.SearchStrategy[set[Acl]]:
    """Return sets of few ACLs, of which some have unknown codes, or of many."""
    few = st.sets(acls(), max_size=8)
    return few | st.sets(acls(unknown_codes=True), max_size=8) | few.map(CROWD.union)


def fast(snapshot: AclSnapshot, settings: AuthorizerSettings, asked: Question) -> bool:
    return authorize(
        snapshot, settings, asked.principal, asked.host, asked.operation, asked.resource_type,
        asked.resource_name,
    )  # fmt: skip


@given(some_acls(), questions(), st.booleans())
@example({read("*", principal="User:*", permission=DENY)}, ask("*a"), True)
@example({read(" "), read("*")}, ask(" "), False)
@example({read("*"), read("*", PREFIXED)}, ask("*"), False)
@example({read(" "), read(" ", PREFIXED), read("*")}, ask(" "), False)
@example({read("ab", permission=DENY), read("a", PREFIXED)}, ask("ab"), False)
@example({read("", PREFIXED), *CROWD}, ask(""), False)
@example({read("a", PREFIXED, permission=DENY), read("ab", principal="User:*")}, ask("ab"), False)
def test_decisions_agree_with_a_scan(held: set[Acl], asked: Question, allow_everyone: bool) -> None:
    """The answer agrees, and so does the rule that is named."""
    snapshot = snapshot_of(*held)
    settings = AuthorizerSettings(allow_everyone_if_no_acl_found=allow_everyone)
    allowed, named = scan.decide(held, allow_everyone, asked)
    decision = explain(snapshot, settings, asked)
    default = DefaultRule.DEFAULT_ALLOW if allowed else DefaultRule.DEFAULT_DENY
    assert decision.allowed == allowed
    assert fast(snapshot, settings, asked) == allowed
    if named is None or named.host == "*":
        assert decision.rule == (default if named is None else MatchingAcl(named))
    else:
        assert isinstance(decision.rule, MatchingAcl)
        assert decision.rule.acl in {acl for acl in held if are_alike(acl, named, asked)}


def are_alike(acl: Acl, named: Acl, asked: Question) -> bool:
    """Return True if the decision may name ``acl`` instead: a DENY of another host."""

    def kind(each: Acl) -> tuple[object, ...]:
        return (each.principal, each.resource_name, each.pattern_type, each.operation)

    return acl == named or (
        asked.host is None
        and scan.speaks(acl, asked)
        and kind(acl) == kind(named)
        and acl.permission_type != ALLOW
    )


@given(some_acls(), questions())
def test_matching_acls_agree_with_a_scan(held: set[Acl], asked: Question) -> None:
    """The index gives back exactly the matching bindings."""
    found = matching_acls(snapshot_of(*held), asked)
    assert len(found) == len(set(found))
    assert set(found) == {acl for acl in held if scan.speaks(acl, asked)}


def test_a_super_user_is_allowed_whatever_is_denied() -> None:
    """This holds even if the super user is named ``User:*``."""
    settings = AuthorizerSettings(frozenset({"User:a", "User:*"}))
    snapshot = snapshot_of(read("*", permission=DENY, operation=Operation.ALL))
    assert fast(snapshot, settings, ask())
    assert explain(snapshot, settings, ask()).rule is DefaultRule.SUPER_USER
    assert fast(snapshot, settings, ask(principal="User:*"))
    assert not fast(snapshot, settings, ask(principal="User:b"))


def test_a_question_about_everyone_is_rejected() -> None:
    for decide in (fast, explain):
        with pytest.raises(InvalidQuestionError, match=r"User:\*"):
            decide(snapshot_of(read()), NOBODY, ask(principal="User:*"))


def test_a_rule_for_everyone_matches_principals_of_every_type() -> None:
    """``User:*`` matches ``Group:x``, too. ``Group:*`` is an ordinary name."""
    snapshot = snapshot_of(read(principal="User:*"), read("u", principal="Group:*"))
    assert fast(snapshot, NOBODY, ask(principal="Group:x"))
    assert not fast(snapshot, NOBODY, ask("u", principal="Group:x"))
    assert fast(snapshot, NOBODY, ask("u", principal="Group:*"))


def test_an_unknown_host_is_allowed_only_by_rules_for_every_host() -> None:
    """A caller without an address cannot use an ALLOW for one address."""
    assert not fast(snapshot_of(read(host="10.0.0.1")), NOBODY, ask(host=None))
    assert fast(snapshot_of(read()), NOBODY, ask(host=None))


@pytest.mark.parametrize("principal", ["User:a", "User:*"])
@pytest.mark.parametrize("operation", [Operation.READ, Operation.ALL])
def test_an_unknown_host_is_denied_by_a_rule_for_one_host(principal: str, operation: int) -> None:
    """The decision names that rule."""
    denied = read("t", permission=DENY, host="10.0.0.7", principal=principal, operation=operation)
    assert explain(snapshot_of(read(), denied), NOBODY, ask(host=None)).rule == MatchingAcl(denied)
    assert not fast(snapshot_of(read(), denied), NOBODY, ask(host=None))
    other = read("t", permission=DENY, host="10.0.0.7", operation=Operation.WRITE)
    assert fast(snapshot_of(read(), other), NOBODY, ask(host=None))


@pytest.mark.parametrize("hosts", [2, 300])
def test_explaining_an_unknown_host_does_not_depend_on_the_number_of_hosts(
    hosts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It builds the last ALLOW and the first DENY, and no other rule."""
    denials = [
        read(name, permission=DENY, host=f"10.0.{number // 250}.{number % 250}", operation=code)
        for number in range(hosts)
        for name in ("t", "*")
        for code in (Operation.READ, Operation.WRITE, Operation.ALL)
    ]
    snapshot = snapshot_of(read(), *denials)
    made = list_made(monkeypatch)
    decision = explain(snapshot, NOBODY, ask(host=None))
    assert len(made) == 2
    assert isinstance(decision.rule, MatchingAcl)
    assert decision.rule.acl in denials
    assert decision.rule.acl.operation == Operation.ALL


def list_made(monkeypatch: pytest.MonkeyPatch) -> list[Acl]:
    """Return a list that will contain the ACLs that explanations build."""
    made: list[Acl] = []

    def make(*fields: Any) -> Acl:  # noqa: ANN401 - the fields of an ACL
        made.append(Acl(*fields))
        return made[-1]

    for module in (deciding, matching):
        monkeypatch.setattr(module, "Acl", make)
    return made


@pytest.mark.parametrize("denied", [(), ("aaa", "a")], ids=["allowed", "denied"])
def test_explaining_does_not_depend_on_the_number_of_matching_prefixes(
    denied: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It builds one rule for each principal and host. Else a batch of questions would block."""
    held = {
        read("a" * size, PREFIXED, principal=principal, host=host, operation=operation)
        for size in range(1, 40)
        for principal in ("User:a", "User:*")
        for host in ("*", "10.0.0.1")
        for operation in (Operation.READ, Operation.WRITE, Operation.ALL)
    }
    held |= {read(name, PREFIXED, DENY) for name in denied}
    made = list_made(monkeypatch)
    asked = ask("a" * 50)
    decision = explain(snapshot_of(*held), NOBODY, asked)
    assert len(made) == 4
    allowed, named = scan.decide(held, False, asked)
    assert named is not None
    assert decision == Decision(allowed, MatchingAcl(named))


def test_the_denial_named_for_an_unknown_host_depends_only_on_the_rules() -> None:
    """Workers and a restarted daemon therefore name the same rule."""
    hosts = [f"10.0.0.{number}" for number in range(200)]
    denials = [read(permission=DENY, host=host) for host in hosts]
    removed = [read(permission=DENY, host=f"10.23.0.{number}") for number in range(200)]
    ids = {each: number.to_bytes(16, "big") for number, each in enumerate(denials + removed)}
    changed = apply_changes(
        build(AclAdded(ids[each], each) for each in (*removed, *reversed(denials))),
        [AclRemoved(ids[each]) for each in removed],
    )
    for snapshot in (snapshot_of(*denials), changed):
        rule = explain(snapshot, NOBODY, ask(host=None)).rule
        assert rule == MatchingAcl(read(permission=DENY, host="10.0.0.17"))


@pytest.mark.parametrize("permission", [-128, 0, 1, 4, 127])
def test_an_unknown_permission_denies(permission: int) -> None:
    unknown = read(permission=permission)
    assert explain(snapshot_of(read(), unknown), NOBODY, ask()).rule == MatchingAcl(unknown)
    assert not fast(snapshot_of(read(), unknown), NOBODY, ask())
    assert not fast(snapshot_of(unknown), NOBODY, ask())


@pytest.mark.parametrize("pattern_type", [-1, 0, 1, 2, 5])
def test_an_unknown_pattern_type_never_allows_but_its_denials_count(pattern_type: int) -> None:
    """It counts as PREFIXED, the widest known type."""
    assert not fast(snapshot_of(read("t", pattern_type)), NOBODY, ask("t"))
    denied = read("t", pattern_type, DENY)
    assert not fast(snapshot_of(read("*"), denied), NOBODY, ask("tx"))
    assert not fast(snapshot_of(read("tx"), read("*", pattern_type, DENY)), NOBODY, ask("tx"))


@pytest.mark.parametrize("code", [-1, 0, 1, 16, 127])
def test_an_unknown_operation_or_type_matches_nothing(code: int) -> None:
    for permission in (ALLOW, DENY):
        unknown = read("*", permission=permission, operation=code)
        assert fast(snapshot_of(read(), unknown), NOBODY, ask())
        assert not matching_acls(snapshot_of(unknown), ask(operation=max(code, 0) & 15))
        other_type = Acl(code, "*", LITERAL, "User:a", "*", Operation.ALL, permission)
        assert fast(snapshot_of(read(), other_type), NOBODY, ask())


def test_many_counted_denials_do_not_carry_into_another_operation() -> None:
    """All pattern types and permissions of a byte deny READ; WRITE stays allowed."""
    unknown = [
        read("t", pattern_type, permission)
        for pattern_type in range(-128, 128)
        for permission in range(-128, 128)
        if permission != ALLOW and (pattern_type, permission) != (LITERAL, DENY)
    ]
    snapshot = snapshot_of(read("*", operation=Operation.WRITE), read(), *unknown)
    assert not fast(snapshot, NOBODY, ask())
    assert fast(snapshot, NOBODY, ask(operation=Operation.WRITE))


def test_any_matching_pattern_turns_the_default_to_deny() -> None:
    """allow.everyone.if.no.acl.found ignores the principal, host and operation of ACLs."""
    settings = AuthorizerSettings(allow_everyone_if_no_acl_found=True)
    other = read("t", PREFIXED, principal="User:z", host="10.9.9.9", operation=Operation.ALTER)
    assert explain(snapshot_of(), settings, ask()).rule is DefaultRule.DEFAULT_ALLOW
    assert explain(snapshot_of(other), settings, ask("tt")).rule is DefaultRule.DEFAULT_DENY
    assert fast(snapshot_of(other), settings, ask("s"))
    assert not fast(snapshot_of(other), settings, ask("tt"))


def test_a_host_is_exact_text() -> None:
    """``10.0.0.1`` does not match ``10.0.0.10``."""
    snapshot = snapshot_of(read(host="10.0.0.1"))
    assert fast(snapshot, NOBODY, ask(host="10.0.0.1"))
    assert not fast(snapshot, NOBODY, ask(host="10.0.0.10"))


def test_the_wildcard_does_not_match_names_that_begin_with_it() -> None:
    """As in Kafka 4.3.1: the literal ``*`` does not match ``*a``, but the prefix does."""
    assert not fast(snapshot_of(read("*")), NOBODY, ask("*a"))
    assert fast(snapshot_of(read("*")), NOBODY, ask("*"))
    assert fast(snapshot_of(read("*", PREFIXED)), NOBODY, ask("*a"))
    assert fast(snapshot_of(read("*a"), read("*", permission=DENY)), NOBODY, ask("*a"))


@pytest.mark.parametrize("name", ["", " ", "!", ")", "+", "a", "é", "\U0001f600"])
def test_the_wildcard_matches_every_other_name(name: str) -> None:
    """This includes names that sort before ``*`` and after it."""
    assert fast(snapshot_of(read("*")), NOBODY, ask(name))
