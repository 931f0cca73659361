"""Near misses: every one is true, and the usual mistakes are found."""

import re
from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given
from msgspec.structs import replace

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.explanation import near_hosts, near_names, near_principals
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.explanation.model import NearMissKind
from authorizerd.acl.explanation.near_misses import NEAR_MISSES_MAX
from authorizerd.acl.model import OPERATIONS, Acl, Operation, PatternType, Question, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from tests.acl.explanation.cases import ADDRESSES, OTHER_HOST, Case, cases
from tests.acl.explanation.similar_cases import alike, almost, check
from tests.oracles import scan
from tests.support.acls import acl, question, snapshot_of

CLOSED = AuthorizerSettings()
RELEASE, SINGLE, UNKNOWN, PRINCIPAL, NAME, PATTERN, HOST, OPERATION = NearMissKind


@given(cases() | almost() | alike())
def test_every_near_miss_is_true(case: Case) -> None:
    explanation = case.explain()
    assert len(explanation.near_misses) <= NEAR_MISSES_MAX
    assert not (explanation.decision.allowed and explanation.near_misses)
    for miss in explanation.near_misses:
        check(case, miss)


@given(cases() | almost() | alike())
def test_allowed_hosts_and_operations_and_single_denials_are_found(case: Case) -> None:
    """Brute force over all hosts and operations finds one exactly if the explanation does."""
    explanation = case.explain()
    asked = case.question
    misses = explanation.near_misses
    if explanation.decision.allowed or len(misses) == NEAR_MISSES_MAX:
        return
    kinds = {miss.kind for miss in misses}
    hosts = [host for host in (*ADDRESSES, OTHER_HOST) if host != asked.host]
    if any(case.is_allowed(case.held, replace(asked, host=host)) for host in hosts):
        assert kinds & {HOST, UNKNOWN, SINGLE, RELEASE}
    others = {*SUPPORTED.get(ResourceType.read(asked.resource_type), ())} - {asked.operation}
    allowed = any(case.is_allowed(case.held, replace(asked, operation=each)) for each in others)
    if asked.operation in OPERATIONS:
        assert (OPERATION in kinds) == allowed
    removals = [case.is_allowed(case.held - {each}, asked) for each in case.held]
    denials = [each for each in explanation.acls if not each.allows]
    if any(removals) and denials:
        assert kinds & {SINGLE, HOST, UNKNOWN}


@given(almost() | alike())
def test_similar_names_and_principals_are_found(case: Case) -> None:
    """Brute force finds one exactly if the explanation does."""
    explanation = case.explain()
    asked, held = case.question, case.held
    if explanation.decision.allowed or len(explanation.near_misses) == NEAR_MISSES_MAX:
        return
    kinds = {miss.kind for miss in explanation.near_misses}
    names = {acl.principal for acl in held if acl.resource_type == asked.resource_type}
    assert (PRINCIPAL in kinds) == any(
        are_similar(name, asked.principal) and case.is_allowed(held, replace(asked, principal=name))
        for name in (names | case.settings.super_users) - {asked.principal, "User:*"}
    )
    if asked.resource_type != ResourceType.CLUSTER and asked.resource_name:
        assert (NAME in kinds) == any(
            case.is_allowed(held, about) and about != asked and acl.permission_type == 3
            for acl in held
            for about in similar_questions(acl, asked)
            if scan.speaks(acl, about, case.rules)
        )


def are_similar(allowed: str, asked: str) -> bool:
    name, other = map(fold_principal, (allowed, asked))
    parts, others = name.split(","), other.split(",")
    common = {each.removeprefix("cn=") for each in parts if each.startswith("cn=")}
    commons = {each.removeprefix("cn=") for each in others if each.startswith("cn=")}
    if sorted(parts) == sorted(others) or common & (commons | {other}) or name in commons:
        return True
    if "*" not in name or allowed.split(":")[0] != asked.split(":")[0]:
        return False
    return common == {"*"} and (bool(commons) or other.startswith("cn="))


def fold_principal(principal: str) -> str:
    return re.sub("^((user|group) *: *)+", "", re.sub("[\"' ]", "", principal).lower())


def similar_questions(acl: Acl, asked: Question) -> list[Question]:
    """Return the questions about names that ``acl`` matches and that are folded as the name."""

    def fold(name: str) -> str:
        return re.sub("[._]", "-", re.sub(" ", "", name).lower())

    name, pattern = asked.resource_name, acl.resource_name
    if acl.pattern_type == PatternType.LITERAL:
        similar = [pattern] if fold(pattern) == fold(name) else []
    else:
        starts = (size for size in range(1, len(name) + 1) if fold(name[:size]) == fold(pattern))
        size = next(starts, None)
        is_similar = size is not None and not name.startswith(pattern)
        similar = [pattern + name[size:]] if is_similar else []
    return [replace(asked, resource_name=each) for each in similar]


A, T = "User:alice", "orders"
FROM = "10.0.0.9"


@pytest.mark.parametrize(
    ("held", "asked", "kind", "text"),
    [
        ([acl(A, "WRITE", topic=T, host="10.0.0.7")],
         question(A, "WRITE", topic=T, host=FROM), HOST,
         "User:alice is allowed WRITE on topic `orders` from host 10.0.0.7, but not from host"
         " 10.0.0.9."),
        ([acl(A, topic=T, host=host) for host in ("10.0.0.7", "10.1.0.9", "10.0.0.98")],
         question(A, topic=T, host=FROM), HOST,
         "User:alice is allowed READ on topic `orders` from host 10.0.0.98 and 2 other hosts,"
         " but not from host 10.0.0.9."),
        ([acl(A, topic=T, host="10.0.0.7")], question(A, topic=T, host=None), UNKNOWN,
         "If the host were known to be 10.0.0.7, User:alice would be allowed READ on topic"
         " `orders`."),
        ([acl(A, topic=T), acl("User:*", topic=T, host="10.0.0.7", deny=True)],
         question(A, topic=T, host=None), UNKNOWN,
         "Denied only because the host is unknown and an ACL denies host 10.0.0.7. From other"
         " hosts, User:alice is allowed READ on topic `orders`."),
        ([acl(A, topic=T), acl("User:*", topic=T, host=FROM, deny=True)],
         question(A, topic=T, host=FROM), HOST,
         "An ACL denies host 10.0.0.9. From hosts that no ACL names, User:alice is allowed READ"
         " on topic `orders`."),
        ([acl(A, topic=T, host="10.0.0.0/24")], question(A, topic=T, host=FROM), RELEASE,
         "Kafka 4.4 allows it, and Kafka 4.3 does not. It is not known which of them judges."),
        ([acl(A, topic=T, host="::1")], question(A, topic=T, host="0:0:0:0:0:0:0:1"), HOST,
         "An ACL allows host `::1`, which never matches: Kafka writes this address as"
         " 0:0:0:0:0:0:0:1."),
        ([acl(A, topic=T, host="client-7.example")], question(A, topic=T, host=FROM), HOST,
         "An ACL allows host `client-7.example`, which never matches: Kafka compares hosts only"
         " as IP addresses."),
        ([acl(A, topic=T)], question(A, "WRITE", topic=T), OPERATION,
         "User:alice is allowed READ and DESCRIBE on topic `orders`, but not WRITE."),
        ([acl(A, topic=T), acl("User:*", "ALL", topic=T, deny=True)], question(A, topic=T), SINGLE,
         "Only the DENY of ALL on literal `orders` for User:* from host * prevents it: without"
         " it, the ALLOW of READ on literal `orders` for User:alice from host * allows READ."),
        ([acl(A, topic=T, pattern="PREFIXED"), acl(A, topic="orders-", pattern="PREFIXED")],
         question("User:User:alice", topic=T), PRINCIPAL,
         "`User:alice` is allowed, but the question is about `User:User:alice`: the type is"
         " repeated."),
        ([acl("User:Alice", topic=T)], question(A, topic=T), PRINCIPAL,
         "`User:Alice` is allowed, but the question is about `User:alice`: the letter case"
         " differs."),
        ([acl("user:alice", topic=T)], question(A, topic=T), PRINCIPAL,
         "`user:alice` is allowed, but the question is about `User:alice`: the letter case of"
         " the type differs."),
        ([acl("Group:alice", topic=T)], question(A, topic=T), PRINCIPAL,
         "`Group:alice` is allowed, but the question is about `User:alice`: the type differs."),
        ([acl(A, topic=T)], question('User:"alice"', topic=T), PRINCIPAL,
         "`User:alice` is allowed, but the question is about `User:\"alice\"`: blanks or quotes"
         " around the name differ."),
        ([acl("User:CN=alice,OU=shop,O=acme", topic=T)],
         question("User:O=acme, OU = shop, CN=alice", topic=T), PRINCIPAL,
         "`User:CN=alice,OU=shop,O=acme` is allowed, but the question is about `User:O=acme,"
         " OU = shop, CN=alice`: the order of the parts of the distinguished name differs."),
        ([acl("User:CN=alice, O = acme", topic=T)],
         question("User:CN=alice,O=acme", topic=T), PRINCIPAL,
         "`User:CN=alice, O = acme` is allowed, but the question is about"
         " `User:CN=alice,O=acme`: the distinguished names are written differently: Java"
         " writes CN=alice,O=acme."),
        ([acl("User:/C=DE/O=acme/CN=alice", topic=T)],
         question("User:CN=alice,O=acme,C=DE", topic=T), PRINCIPAL,
         "`User:/C=DE/O=acme/CN=alice` is allowed, but the question is about"
         " `User:CN=alice,O=acme,C=DE`: the distinguished names are written differently: Java"
         " writes CN=alice,O=acme,C=DE."),
        ([acl("User:EMAILADDRESS=x@y.z,CN=alice", topic=T)],
         question("User:1.2.840.113549.1.9.1=#16057840792e7a,CN=alice", topic=T), PRINCIPAL,
         "`User:EMAILADDRESS=x@y.z,CN=alice` is allowed, but the question is about"
         " `User:1.2.840.113549.1.9.1=#16057840792e7a,CN=alice`: the distinguished names are"
         " written differently: Java writes 1.2.840.113549.1.9.1=#16057840792e7a,CN=alice."),
        ([acl("User:CN=alice,E=x@y.z", topic=T)], question("User:CN=alice", topic=T), PRINCIPAL,
         "`User:CN=alice,E=x@y.z` is allowed, but the question is about `User:CN=alice`: the"
         " allowed one also has EMAILADDRESS=x@y.z."),
        ([acl("User:CN=alice", topic=T)],
         question("User:CN=alice,OU=shop,O=acme", topic=T), PRINCIPAL,
         "`User:CN=alice` is allowed, but the question is about `User:CN=alice,OU=shop,O=acme`:"
         " the allowed one lacks OU=shop,O=acme."),
        ([acl("User:CN=alice,OU=shop", topic=T)],
         question("User:CN=alice,OU=sale", topic=T), PRINCIPAL,
         "`User:CN=alice,OU=shop` is allowed, but the question is about"
         " `User:CN=alice,OU=sale`: the allowed one has OU=shop, not OU=sale."),
        ([acl(A, topic=T)], question("User:CN=alice,OU=shop", topic=T), PRINCIPAL,
         "`User:alice` is allowed, but the question is about `User:CN=alice,OU=shop`: the"
         " allowed one is only the CN: no mapping rule has shortened this one."),
        ([acl("User:CN=alice,OU=shop", topic=T)], question(A, topic=T), PRINCIPAL,
         "`User:CN=alice,OU=shop` is allowed, but the question is about `User:alice`: the"
         " allowed one is the whole distinguished name, and this one only its CN."),
        ([acl("User:al*", topic=T)], question(A, topic=T), PRINCIPAL,
         "`User:al*` is allowed, but the question is about `User:alice`: * is an ordinary"
         " character in a principal."),
        ([acl("User:CN=*.acme.example,OU=shop", topic=T)],
         question("User:CN=node1.acme.example,O=acme", topic=T), PRINCIPAL,
         "`User:CN=*.acme.example,OU=shop` is allowed, but the question is about"
         " `User:CN=node1.acme.example,O=acme`: * is an ordinary character in a principal."),
        (
            [acl("User:al*e", topic=T), acl("User:CN=alice", topic=T), acl("User:Alice", topic=T)],
            question(A, topic=T), PRINCIPAL,
            "`User:Alice` is allowed, but the question is about `User:alice`: the letter case"
            " differs.",
        ),
        ([acl(A, topic="Orders")], question(A, topic=T), NAME,
         "User:alice is allowed READ on topic `Orders`, but the question names `orders`: the"
         " letter case differs."),
        ([acl(A, topic="orders.", pattern="PREFIXED")], question(A, topic="orders-eu"), NAME,
         "User:alice is allowed READ on topic `orders.eu`, but the question names `orders-eu`: a"
         " dot, dash or underscore differs."),
        ([acl(A, topic=T)], question(A, topic=" orders"), NAME,
         "User:alice is allowed READ on topic `orders`, but the question names ` orders`: blanks"
         " or quotes differ."),
        ([acl(A, "ALTER", cluster=True)],
         Question(A, FROM, Operation.ALTER, 4, "my-cluster"), NAME,
         "User:alice is allowed ALTER on the cluster, which ACLs name `kafka-cluster`, but the"
         " question names `my-cluster`."),
        ([acl(A, topic="orders-", pattern="PREFIXED")], question(A, topic=T), PATTERN,
         "The prefix `orders-` is allowed, but topic `orders` does not begin with it."),
        ([acl(A, topic="orders-*")], question(A, topic="orders-eu"), PATTERN,
         "In the literal `orders-*`, the star is an ordinary character; the prefix `orders-`"
         " would match."),
        ([acl(A, topic="orders-*", pattern="PREFIXED")], question(A, topic="orders-eu"), PATTERN,
         "In the prefix `orders-*`, the star is an ordinary character; the prefix `orders-`"
         " would match."),
        ([acl(A, topic="*", pattern="PREFIXED")], question(A, topic=T), PATTERN,
         "The prefix `*` matches only names that begin with `*`; the literal `*` would match."),
        ([acl(A, topic="*")], question(A, topic="*orders"), PATTERN,
         "As in Kafka, the literal `*` does not match `*orders`, which begins with `*`."),
        ([acl(A, topic=T)], question(A, topic="orders-eu"), PATTERN,
         "As a literal, `orders` does not match `orders-eu`; as a prefix, it would."),
    ],
)  # fmt: skip
def test_sentence_of_each_near_miss(
    held: list[Acl], asked: Question, kind: NearMissKind, text: str
) -> None:
    """It is the first, so the closest, and true."""
    case = Case(frozenset(held), CLOSED, asked)
    explanation = case.explain()
    assert explanation.near_misses[0].text == text
    assert explanation.near_misses[0].kind == kind
    for miss in explanation.near_misses:
        check(case, miss)


@pytest.mark.parametrize(
    ("held", "rules", "text"),
    [
        ([acl(A, topic=T, host="10.0.0.0/24")], RULES_4_3,
         "An ACL allows host `10.0.0.0/24`, which never matches: Kafka 4.3 compares single"
         " addresses, not ranges."),
        ([acl(A, topic=T, host="10.0.0.0/255.255.255.0")], RULES_4_4,
         "An ACL allows host `10.0.0.0/255.255.255.0`, which never matches: Kafka cannot read"
         " this range."),
        ([acl(A, topic=T, host="10.0.1.0/24")], RULES_4_4,
         "User:alice is allowed READ on topic `orders` from host 10.0.1.0 and others in"
         " 10.0.1.0/24, but not from host 10.0.0.9."),
        ([acl(A, topic=T), acl("User:*", topic=T, host="10.0.0.0/24", deny=True)], RULES_4_4,
         "An ACL denies the range 10.0.0.0/24, which has host 10.0.0.9. From hosts that no ACL"
         " names, User:alice is allowed READ on topic `orders`."),
        ([acl(A, topic=T), acl("User:*", topic=T, host="10.0.0.0/24", deny=True)], ANY_RELEASE,
         "Kafka 4.3 allows it, and Kafka 4.4 does not. It is not known which of them judges."),
    ],
)  # fmt: skip
def test_sentence_of_near_ranges(held: list[Acl], rules: ReleaseRules, text: str) -> None:
    case = Case(frozenset(held), CLOSED, question(A, topic=T, host=FROM), rules)
    misses = case.explain().near_misses
    assert misses[0].text == text
    for miss in misses:
        check(case, miss)


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        ([acl("User:alicia", topic=T)], question(A, topic=T)),
        ([acl("User:alice-2", topic=T)], question(A, topic=T)),
        ([acl("User:CN=alice-2,O=x", topic=T)], question("User:CN=alice,O=x", topic=T)),
        ([acl("User:OU=alice", topic=T)], question(A, topic=T)),
        ([acl("User:al*x", topic=T), acl("Group:al*", topic=T)], question(A, topic=T)),
        ([acl("User:alice*alice", topic=T)], question(A, topic=T)),
        ([acl(A, topic="order")], question(A, topic=T)),
        ([acl(A, topic=T, host="10.9.0.0/24")], question(A, topic=T, host=FROM)),
        ([acl("User:*", "ALL", topic=T, deny=True), acl(A, topic="x")], question(A, topic=T)),
        ([acl(A, group=T)], question(A, topic=T)),
        (
            [acl(A, topic="orders-*"), acl("User:*", "ALL", topic="orders-eu", deny=True)],
            question(A, topic="orders-eu"),
        ),
    ],
)
def test_unrelated_acls_are_no_near_misses(held: list[Acl], asked: Question) -> None:
    assert Case(frozenset(held), CLOSED, asked).explain().near_misses == ()


def test_closest_principal_is_found_among_many() -> None:
    """More principals than are compared, or tried, at once come before it."""
    held = [acl(f"User:CN=alice,OU={number}", topic=T) for number in range(600)]
    snapshot = snapshot_of(*held, acl("User:Alice", topic=T))
    explanation = explain_fully(snapshot, CLOSED, question(A, topic=T))
    assert explanation.near_misses[0].instead == question("User:Alice", topic=T)


def test_super_user_with_a_similar_name_is_found() -> None:
    settings = AuthorizerSettings(frozenset({"User:Alice"}))
    (miss,) = Case(frozenset(), settings, question(A, topic=T)).explain().near_misses
    assert (miss.kind, miss.acl) == (PRINCIPAL, None)


@pytest.mark.parametrize(
    ("module", "limit", "make", "found"),
    [
        (near_hosts, "HOSTS_SEARCHED_MAX", lambda number: acl(A, topic=T, host=f"10.0.0.{number}"),
         "Only the ACLs of 50 hosts were compared."),
        (near_names, "PATTERNS_SEARCHED_MAX", lambda number: acl(A, topic=f"t{number}"),
         "Only 50 patterns were compared."),
        (near_principals, "PRINCIPALS_SEARCHED_MAX", lambda number: acl(f"User:{number}", topic=T),
         "Only 50 principals were compared."),
    ],
)  # fmt: skip
def test_searches_are_bounded_and_say_so(
    module: ModuleType,
    limit: str,
    make: Callable[[int], Acl],
    found: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, limit, 50)
    for count, unsearched in ((50, ()), (51, (found,))):
        snapshot = snapshot_of(*map(make, range(count)))
        asked = question(A, topic=T, host="10.250.0.1")
        assert explain_fully(snapshot, CLOSED, asked).unsearched == unsearched
