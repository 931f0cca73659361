"""Indexes of sets of ACLs, and the recorded requests that they judge."""

import pickle
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from authorizerd.acl.releases import Release
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging import index
from authorizerd.replay.judging.asking import (
    OPERATION_CODES,
    QUESTION_FIELDS,
    RESOURCE_TYPE_CODES,
    unasked_reason,
)
from authorizerd.replay.judging.index import INDEXES_KEPT, AclIndex
from authorizerd.replay.judging.report import JudgedBy
from tests.ops.replay.acl_sets import acl_set_of
from tests.oracles.scan import decide as scan
from tests.support.acls import acl
from tests.support.strategies import acls, resource_names


class Asked(NamedTuple):
    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str


def set_of(*some: Acl, super_users: tuple[str, ...] = ()) -> AclSet:
    return acl_set_of(some, super_users=super_users)


def topic(number: int) -> Acl:
    return Acl(2, f"t-{number}", 3, "User:a", "*", 3, 3)


def send(acl_set: AclSet) -> AclIndex:
    """Return what a worker unpickles."""
    built: AclIndex = pickle.loads(pickle.dumps(AclIndex.of(acl_set)))
    return built


@given(st.lists(acls(unknown_codes=True), max_size=8))
def test_index_contains_each_acl_once(some: list[Acl]) -> None:
    for built in (AclIndex.of(set_of(*some)), send(set_of(*some))):
        assert built.acls == tuple(dict.fromkeys(some))
        assert [built.acls[number] for number in built.numbers.values()] == list(built.numbers)
        assert sorted(map(str, built.snapshot.acls.values())) == sorted(map(str, set(some)))


def test_worker_builds_equal_sets_once() -> None:
    first = send(set_of(topic(1), topic(2)))
    assert send(set_of(topic(1), topic(2))) is first
    # The order gives the ACLs their numbers.
    turned = send(set_of(topic(2), topic(1)))
    assert (turned.acls, turned is first) == (first.acls[::-1], False)


def test_other_settings_are_another_index() -> None:
    plain = set_of(topic(1))
    others = [
        replace(plain, super_users=("User:a",)),
        replace(plain, allow_everyone_if_no_acl_found=True),
        set_of(topic(2)),
    ]
    sent = [send(each) for each in (plain, *others)]
    assert len({id(each) for each in sent}) == 4
    assert [each.settings for each in sent] == [each.settings for each in (plain, *others)]


def test_number_of_kept_indexes_is_bounded() -> None:
    for number in range(5):
        kept = send(set_of(topic(number)))
        assert index._unpickle.cache_info().currsize <= INDEXES_KEPT
    assert send(set_of(topic(4))) is kept


def test_each_release_judges_by_its_own_rules() -> None:
    """An ACL is used if any release matches it."""
    allowing = acl("User:a", "READ", topic="t", host="10.9.0.0/16")
    denying = acl("User:b", "READ", topic="t", host="10.9.0.0/16", deny=True)
    allowed = acl("User:b", "READ", topic="t")
    index = send(set_of(allowing, denying, allowed))
    by_a, by_b = (Asked(user, "10.9.3.4", "READ", "TOPIC", "t") for user in ("User:a", "User:b"))
    assert index.releases == (Release.KAFKA_4_3, Release.KAFKA_4_4)
    assert (index.answers(by_a), index.answers(by_b)) == ((False, True), (True, False))
    assert (set(index.matching(by_a)), set(index.matching(by_b))) == ({0}, {1, 2})
    assert [index.explain(by_b, release).allowed for release in (0, 1)] == [True, False]
    newest = send(replace(set_of(allowing, denying), releases=(Release.KAFKA_4_4,)))
    assert (newest.answers(by_a), newest.answers(by_b)) == ((True,), (False,))
    assert JudgedBy.of(set_of(allowing)).kafka_releases == ("4.3", "4.4")
    assert "--kafka-release" in "".join(JudgedBy.of(set_of(allowing)).describe_unknown())
    assert JudgedBy.of(set_of(allowed)).kafka_releases is UNSET


rows = st.builds(
    Asked, st.sampled_from(("User:a", "User:b", "Group:a", "User:root")),
    st.sampled_from((None, "10.0.0.1", "0:0:0:0:0:0:0:1", "10.0.0.2")),
    st.sampled_from(sorted(OPERATION_CODES)), st.sampled_from(sorted(RESOURCE_TYPE_CODES)),
    resource_names,
)  # fmt: skip


def with_root(some: list[Acl], *, allow_everyone: bool = False) -> AclSet:
    return acl_set_of(some, super_users=("User:root",), allow_everyone=allow_everyone)


@given(
    st.lists(acls(unknown_codes=True), max_size=10, unique=True),
    st.lists(rows, max_size=12),
    st.booleans(),
)
def test_decisions_equal_a_scan(some: list[Acl], asked: list[Asked], allow_everyone: bool) -> None:
    index = AclIndex.of(with_root(some, allow_everyone=allow_everyone))
    for row in asked:
        decision = index.explain(row)
        assert set(index.answers(row)) == {decision.allowed}
        if row.principal == "User:root":
            assert str(decision.rule) == "SuperUser"
            continue
        question = Question(*row[:2], Operation[row[2]], ResourceType[row[3]], row[4])
        allowed, acl = scan(some, allow_everyone, question)
        default = "DefaultAllow" if allowed else "DefaultDeny"
        expected = default if acl is None else f"MatchingAcl(acl={acl})"
        assert (decision.allowed, str(decision.rule)) == (allowed, expected)


@pytest.mark.parametrize(("asked", "reason"), [
    (("User:a", "READ", "TOPIC", "t", "LITERAL"), None),
    (("User:a", "ALL", "USER", "", "LITERAL"), None),
    ((None, "READ", "TOPIC", "t", "LITERAL"), "no principal or no resource name"),
    (("User:a", "READ", "TOPIC", None, "LITERAL"), "no principal or no resource name"),
    (("User:*", "READ", "TOPIC", "t", "LITERAL"), "principal User:*"),
    (("User:a", "READ", "TOPIC", "t", "PREFIXED"), "pattern type is not LITERAL"),
    (("User:a", "READ", "TOPIC", "t", None), "pattern type is not LITERAL"),
    (("User:a", "UNKNOWN", "TOPIC", "t", "LITERAL"), "unknown operation"),
    (("User:a", "ANY", "TOPIC", "t", "LITERAL"), "unknown operation"),
    (("User:a", None, "TOPIC", "t", "LITERAL"), "unknown operation"),
    (("User:a", "READ", "ANY", "t", "LITERAL"), "unknown resource type"),
    (("User:a", "READ", "topic", "t", "LITERAL"), "unknown resource type"),
])  # fmt: skip
def test_undecidable_row_has_a_reason(asked: tuple[str | None, ...], reason: str | None) -> None:
    principal, *fields, pattern_type = asked
    row = dict(zip(QUESTION_FIELDS, (principal, None, *fields), strict=True))
    assert unasked_reason(SimpleNamespace(**row, pattern_type=pattern_type)) == reason
