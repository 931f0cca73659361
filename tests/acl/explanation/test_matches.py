"""The ACLs that match a question, compared with a plain scan."""

from collections.abc import Iterable

from hypothesis import given

from authorizerd.acl.explanation.matches import ACLS_LISTED_MAX, CHARACTERS_LISTED_MAX, find_matches
from authorizerd.acl.model import Acl, Operation, PatternType, Question
from authorizerd.acl.snapshot import is_grant
from tests.acl.explanation.cases import Case, cases
from tests.oracles import scan
from tests.support.acls import acl, question, snapshot_of


def order(acls: Iterable[Acl], asked: Question) -> list[Acl]:
    """Return ACLs in the order in which Kafka's scan meets them first."""

    def place(each: Acl) -> tuple[object, ...]:
        pattern = each.pattern_type if each.pattern_type in (1, 2, 3, 4) else 0
        is_wild = each.resource_name == "*" and pattern != PatternType.PREFIXED
        texts = (each.principal.encode("utf-16-be"), each.host.encode("utf-16-be"))
        return (
            is_wild and asked.resource_name != "*",
            -len(each.resource_name), pattern, each.operation, *texts, each.permission_type,
        )  # fmt: skip

    return sorted(acls, key=place)


@given(cases())
def test_matches_agree_with_a_scan(case: Case) -> None:
    asked = case.question
    found = find_matches(case.snapshot, asked)
    expected = [each for each in case.held if scan.concerns(each, asked)]
    if asked.host is None:
        assert set(found.listed) == set(expected)
        assert len(found.listed) == len(expected)
    else:
        assert list(found.listed) == order(expected, asked)
    allows = [each for each in found.listed if is_grant(each)]
    denials = [each for each in found.listed if each not in allows]
    assert (list(found.allows), list(found.denials)) == (allows, denials)
    assert (found.allow_count, found.denial_count) == (len(allows), len(denials))
    wide = [each for each in denials if each.host == "*" or ":" not in each.principal]
    assert (list(found.wide_denials), found.wide_denial_count) == (wide, len(wide))


@given(cases())
def test_acl_that_decides_comes_first_of_those_that_deny(case: Case) -> None:
    explanation = case.explain()
    deciding = [each.acl for each in explanation.acls if each.decides]
    is_failing = any(":" not in each.acl.principal for each in explanation.acls)
    if explanation.is_super_user:
        assert not deciding
        return
    denying = [each.acl for each in explanation.acls if not each.allows]
    assert deciding[:1] == denying[:1] or not denying or is_failing
    assert bool(deciding) == bool(explanation.acls)
    if deciding:
        kind = "MatchingAcl" if ":" in deciding[0].principal else "UnjudgeableAcl"
        assert str(explanation.decision.rule) == f"{kind}(acl={deciding[0]})"


def test_hosts_of_denials_are_bounded_and_counted() -> None:
    hosts = [f"10.0.{number // 250}.{number % 250}" for number in range(5000)]
    held = [acl(deny=True, host=host) for host in hosts]
    found = find_matches(snapshot_of(acl(), *held), question(host=None))
    assert len(found.listed) == ACLS_LISTED_MAX
    assert set(found.listed) <= {*held, acl()}
    assert (found.denial_count, found.allow_count) == (5000, 1)


def test_listed_names_are_bounded() -> None:
    name = "n" * (CHARACTERS_LISTED_MAX // 4)
    held = [acl(topic=name[:size], pattern="PREFIXED") for size in range(100, len(name), 200)]
    found = find_matches(snapshot_of(*held), question(topic=name))
    assert sum(len(each.resource_name) for each in found.listed) < 2 * CHARACTERS_LISTED_MAX
    assert found.allow_count == len(held)
    assert list(found.listed) == order(held, question(topic=name))[: len(found.listed)]


def test_unindexed_acls_are_bounded_and_counted() -> None:
    held = [
        Acl(2, "t", PatternType.LITERAL, "User:a", "*", operation, permission)
        for permission in range(4, 100)
        for operation in (Operation.ALL, Operation.READ)
    ]
    found = find_matches(snapshot_of(*held), question())
    assert list(found.listed) == order(held, question())[:ACLS_LISTED_MAX]
    assert found.denial_count == len(held)
