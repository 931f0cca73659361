"""``authorizerd verify --probe``: agreement, differences that it must find, and odd brokers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.model import Acl, Operation, PatternType, ResourceType
from authorizerd.acl.operations import NOT_REQUESTED, SUPPORTED
from authorizerd.acl.releases import RULES, Release
from authorizerd.cli.errors import CommandError
from authorizerd.cli.probe import comparing
from authorizerd.cli.probe.brokers import CLUSTER, UNANSWERED
from authorizerd.cli.probe.causes import Cause
from authorizerd.cli.probe.deciding import Asked, OwnAnswer
from authorizerd.cli.probe.report import Probed, page_lines
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.cli.probe.acl_brokers import (
    GROUP,
    HOST,
    KAFKA_4,
    KNOWN,
    TOPIC,
    WINDOW_S,
    AclCluster,
    differing,
    own_side,
)
from tests.daemon.kafka_cluster import HANG_UP, answer
from tests.support.acls import acl
from tests.support.strategies import acls as random_acls

ACLS = (
    acl(topic="t"),
    acl(operation="ALTER_CONFIGS", topic="p", pattern="PREFIXED", host=HOST),
    acl(operation="WRITE", topic="t", deny=True, host="10.0.0.7"),
    acl(group="g"),
    acl(operation="ALTER", cluster=True),
    acl("User:b", "ALL", topic="other"),
)
MORE = acl(operation="DELETE", topic="t")
ELSEWHERE = acl(operation="DELETE", topic="t", host="10.0.0.7")
RANGE = acl(operation="DELETE", topic="t", host="10.0.0.0/8")
AT_HOST = acl(operation="DELETE", topic="t", host=HOST)
TOPICS, GROUPS = ("t", "hidden"), {"g": 0, "i": 0}
READS = 1 << Operation.READ | 1 << Operation.DESCRIBE
FAULT = ErrorCode.UNKNOWN_SERVER_ERROR


def cluster_of(*acls: Acl, **settings: Any) -> AclCluster:  # noqa: ANN401 - fields
    return AclCluster(acls or ACLS, TOPICS, dict(GROUPS), **settings)


def count_answers(probed: Probed) -> int:
    return probed.judged + probed.not_visible + sum(probed.not_judged.values())


def test_agreement_is_counted() -> None:
    """``p``, ``other`` and ``i`` are asked about, since ACLs or a listing name them."""
    probed = cluster_of().probe(*ACLS, acl("User:b", group="i"))
    assert (probed.differences, probed.not_judged) == ([], {})
    assert (probed.visible, probed.hidden) == (3, 3)
    # Visible: t, g and the cluster. Hidden: p, which ALTER_CONFIGS does not make visible; other, i.
    assert probed.agreed == 8 + 5 + 7 + 3
    assert probed.not_visible == 7 + 7 + 4
    assert probed.is_proof
    assert list(page_lines(probed)) == [
        "1 broker of cluster probed, asked as User:a",
        "compared with 7 ACLs of acls.txt, asked from 10.0.0.1",
        "3 visible resources, 3 not visible",
        "judged: 23 answers",
        "agreed: 23 answers",
        "not visible, so not judged: 18 answers",
        "differences: none",
    ]


@given(
    st.lists(random_acls(), max_size=6, unique=True),
    st.lists(random_acls(), max_size=2, unique=True),
    st.booleans(),
)
def test_differences_are_those_of_a_plain_scan(
    common: list[Acl], planted: list[Acl], is_here: bool
) -> None:
    """Some ACLs are on one side only. What is not visible is compared by DESCRIBE alone."""
    more = [*dict.fromkeys((*common, *planted))]
    theirs, ours = (common, more) if is_here else (more, common)
    cluster = AclCluster(theirs, ["a", "-b"], {"a": 0, "b": 1}, brokers=2)
    here = AclCluster(ours)
    probed = cluster.probe(*ours)
    listed = [*((TOPIC, name) for name in cluster.topics), *((GROUP, name) for name in "ab")]
    shows_groups = cluster.allows(Operation.DESCRIBE, CLUSTER)
    asked = {CLUSTER} | {
        each
        for each in listed
        if cluster.allows(Operation.DESCRIBE, each) or (shows_groups and each[0] is GROUP)
    }
    asked.update(
        (ResourceType(each.resource_type), each.resource_name)
        for each in ours
        if each.resource_type in (TOPIC, GROUP)
        and (each.resource_name != "*" or each.pattern_type == PatternType.PREFIXED)
        and each.resource_name
    )
    expected = {
        (operation.name, kind.name, name)
        for kind, name in asked
        for operation in SUPPORTED[kind]
        if operation is Operation.DESCRIBE or cluster.allows(Operation.DESCRIBE, (kind, name))
        if cluster.allows(operation, (kind, name)) != here.allows(operation, (kind, name))
    }
    assert expected == {
        (each.operation, each.resource_type, each.resource_name) for each in probed.differences
    }
    assert count_answers(probed) == sum(len(SUPPORTED[kind]) for kind, _ in asked)


class PlugIn:
    """A decider that is not Kafka's authorizer."""

    description = "a plug-in"
    unknown_settings: tuple[str, ...] = ()

    def decide(self, asked: Sequence[Asked]) -> list[OwnAnswer]:
        return [OwnAnswer(False, "com.example.Opa")] * len(asked)


SUPER = KnownSettings(frozenset(["User:a"]), False)
OPEN = KnownSettings(frozenset(), True)


@pytest.mark.parametrize(("brokers", "ours", "known", "cause", "differs"), [
    pytest.param(cluster_of(super_users=["User:a"]), ACLS, KNOWN, Cause.SUPER_USERS, None,
                 id="a super user"),
    pytest.param(cluster_of(), ACLS, SUPER, Cause.SUPER_USERS, None, id="a super user only here"),
    pytest.param(cluster_of(*ACLS, ELSEWHERE, host="10.0.0.7"), (*ACLS, ELSEWHERE), KNOWN,
                 Cause.HOST, {"DELETE t"}, id="another host"),
    pytest.param(cluster_of(*ACLS), (*ACLS, AT_HOST), KNOWN, Cause.HOST, {"DELETE t"},
                 id="an ACL of a host that the brokers lack"),
    pytest.param(cluster_of(*ACLS, RANGE, rules=RULES[Release.KAFKA_4_4]), (*ACLS, RANGE), KNOWN,
                 Cause.RELEASE, {"DELETE t"}, id="another release"),
    pytest.param(cluster_of(is_open=True), ACLS, KNOWN, Cause.DEFAULT, None, id="an open default"),
    pytest.param(cluster_of(), ACLS, OPEN, Cause.DEFAULT, None, id="a default open only here"),
    pytest.param(cluster_of(), (*ACLS, MORE), KNOWN, Cause.BROKERS_LACK, {"DELETE t"},
                 id="an ACL more here"),
    pytest.param(cluster_of(*ACLS, MORE), ACLS, KNOWN, Cause.HERE_LACKS, {"DELETE t"},
                 id="an ACL less here"),
    pytest.param(cluster_of(), ACLS[1:], KNOWN, Cause.HERE_LACKS, {"READ t", "DESCRIBE t"},
                 id="a topic that is not visible here"),
    pytest.param(cluster_of(*ACLS[1:]), ACLS, KNOWN, Cause.BROKERS_LACK, {"DESCRIBE t"},
                 id="a topic that the brokers do not show"),
    pytest.param(cluster_of(), (acl("User:b", topic="t"),), KNOWN, Cause.OTHER, None,
                 id="another principal"),
])  # fmt: skip
def test_planted_fault_is_found_with_its_cause(
    brokers: AclCluster,
    ours: tuple[Acl, ...],
    known: KnownSettings,
    cause: Cause,
    differs: set[str] | None,
) -> None:
    probed = brokers.probe(*ours, known=known)
    found = differing(probed)
    assert list(found) == [cause]
    assert differs in (None, found[cause])
    assert not probed.is_proof
    assert f"differences, {cause}: " in "\n".join(page_lines(probed))


def test_plug_in_here_is_named() -> None:
    probed = cluster_of().probe(open_side=PlugIn)
    assert list(differing(probed)) == [Cause.PLUG_IN]
    assert any(line == "    likely: com.example.Opa" for line in page_lines(probed))


def test_not_visible_is_shown_as_such() -> None:
    lines = list(page_lines(cluster_of(*ACLS[1:]).probe(*ACLS)))
    begin = lines.index("  DESCRIBE TOPIC t")
    assert lines[begin + 1] == "    brokers: not visible"
    assert lines[begin + 2].startswith("    here: Allowed, MatchingAcl(acl=StandardAcl[")


@pytest.mark.parametrize(("resource", "shown", "reason", "answers"), [
    ((TOPIC, "t"), (0, READS | 1 << 20),
     "bit 20 of a TOPIC is an operation that this version does not know", 1),
    ((TOPIC, "t"), (0, READS | 1 << Operation.CLUSTER_ACTION),
     "bit 9 of a TOPIC is an operation that this version does not know", 1),
    ((TOPIC, "t"), (FAULT, NOT_REQUESTED), "the brokers answer UNKNOWN_SERVER_ERROR", 8),
    ((TOPIC, "t"), (0, NOT_REQUESTED), "the brokers do not say", 8),
    ((GROUP, "g"), (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, NOT_REQUESTED),
     "the brokers answer COORDINATOR_LOAD_IN_PROGRESS", 4),
    ((GROUP, "g"), (ErrorCode.INVALID_REQUEST, NOT_REQUESTED),
     "the brokers answer INVALID_REQUEST", 5),
    (CLUSTER, (FAULT, NOT_REQUESTED), "the brokers answer UNKNOWN_SERVER_ERROR", 7),
])  # fmt: skip
def test_what_brokers_do_not_say_is_not_judged(
    resource: tuple[int, str], shown: tuple[int, int], reason: str, answers: int
) -> None:
    probed = cluster_of(odd={resource: shown}).probe(*ACLS)
    assert probed.not_judged == {reason: answers}
    assert probed.differences == []
    assert probed.is_proof is (answers == 1), "at most 5% of the answers are not judged"


@pytest.mark.parametrize("is_granted", [False, True])
def test_operations_that_earlier_kafka_does_not_report_are_not_judged(is_granted: bool) -> None:
    granted = acl(operation="ALL" if is_granted else "READ", group="g")
    reported = READS | is_granted << Operation.DELETE
    cluster = AclCluster(
        [granted], groups={"g": 0}, served={**KAFKA_4, ApiKey.DESCRIBE_GROUPS: (0, 5)},
        odd={(GROUP, "g"): (0, reported)},
    )  # fmt: skip
    assert cluster.probe(granted).not_judged == {comparing.UNREPORTED: 2}


@pytest.mark.parametrize(("api", "versions"), [
    (ApiKey.METADATA, (0, 7)), (ApiKey.DESCRIBE_GROUPS, (0, 2)), (ApiKey.DESCRIBE_CLUSTER, (3, 3)),
])  # fmt: skip
def test_old_broker_is_an_error(api: ApiKey, versions: tuple[int, int]) -> None:
    cluster = cluster_of(served={**KAFKA_4, api: versions})
    with pytest.raises(CommandError, match=f"{api.name}: expected a broker .* Kafka 2.8 or newer"):
        cluster.probe(*ACLS)


def gaps(cluster: AclCluster) -> Iterator[float]:
    return (later - earlier for earlier, later in pairwise(cluster.sent))


@pytest.mark.parametrize(("rate", "throttle", "expected"), [(2.0, 0, 0.5), (10.0, 3, 3)])
def test_requests_are_limited_by_the_rate_and_by_throttling(
    rate: float, throttle: float, expected: float
) -> None:
    cluster = cluster_of(throttle=throttle, brokers=2)
    assert cluster.probe(*ACLS, rate=rate).is_proof
    assert min(gaps(cluster)) == pytest.approx(expected)
    assert len(cluster.sent) == 7


def test_only_reading_requests_are_sent() -> None:
    """The versions are those that have authorized operations, also of absent groups."""
    cluster = cluster_of()
    cluster.probe(*ACLS)
    assert cluster.names == [
        "METADATA 13", "DESCRIBE_GROUPS 6", "LIST_GROUPS 5",
        "METADATA 13", "DESCRIBE_GROUPS 5", "DESCRIBE_CLUSTER 2",
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(6))
def test_lost_connection_is_opened_again(number: int) -> None:
    cluster = cluster_of(hooks={number: lambda: HANG_UP})
    assert (probed := cluster.probe(*ACLS)).is_proof
    assert probed.agreed == 23


def test_topic_that_is_deleted_meanwhile_is_judged() -> None:
    cluster = cluster_of()
    cluster.hooks[3] = lambda: setattr(cluster, "topics", ())
    assert cluster.probe(*ACLS).is_proof


def test_answers_about_other_groups_are_ignored() -> None:
    cluster = cluster_of()
    others = [*GROUPS, "not-asked"]
    cluster.hooks[4] = lambda: answer(groups=[cluster.group(0, name) for name in others])
    assert cluster.probe(*ACLS).is_proof


def test_groups_of_a_broker_that_is_down_are_not_judged() -> None:
    """The other broker proves only that ``g`` is visible."""
    cluster = AclCluster(ACLS, groups={"g": 1}, brokers=2, down={1})
    probed = cluster.probe(*ACLS)
    assert probed.brokers == 1
    assert probed.not_judged == {"the brokers answer NOT_COORDINATOR": 4}
    assert probed.differences == []


def test_groups_are_not_judged_if_no_broker_can_be_reached() -> None:
    """Only the bootstrap server can, as through a tunnel."""
    cluster = AclCluster(ACLS, groups={"g": 1}, brokers=2, advertised=[1], down={1})
    probed = cluster.probe(*ACLS)
    assert (probed.brokers, probed.not_judged) == (0, {UNANSWERED: 5})


def test_cluster_that_goes_down_is_an_error() -> None:
    cluster = cluster_of()
    cluster.hooks[3] = lambda: cluster.down.add(0)
    with pytest.raises(CommandError, match="the brokers: the server closed the connection"):
        cluster.probe(*ACLS)


@pytest.mark.parametrize(
    ("sides", "agreed_later", "not_judged", "causes"),
    [
        pytest.param([(), (MORE,)], 1, {}, [], id="a change that arrives"),
        pytest.param([(), ()], 0, {}, [Cause.HERE_LACKS], id="a difference that stays"),
    ],
)
def test_difference_counts_only_if_it_stays(
    sides: list[tuple[Acl, ...]],
    agreed_later: int,
    not_judged: dict[str, int],
    causes: list[Cause],
) -> None:
    opened = iter(sides)
    cluster = cluster_of(*ACLS, MORE)
    probed = cluster.probe(open_side=lambda: own_side((*ACLS, *next(opened))))
    assert (probed.agreed_later, probed.not_judged) == (agreed_later, not_judged)
    assert list(differing(probed)) == causes
    assert max(gaps(cluster)) == pytest.approx(WINDOW_S), "both sides are asked after the window"
    assert len(cluster.sent) == 7, "only about the topic that differs"


def test_answers_that_change_are_not_judged() -> None:
    """A change reaches the brokers first, and its removal reaches them last."""
    cluster = cluster_of(*ACLS, MORE)
    sides = iter([own_side(ACLS), own_side((*ACLS, MORE))])
    cluster.hooks[6] = lambda: setattr(cluster, "acls", ACLS)
    probed = cluster.probe(open_side=lambda: next(sides))
    assert probed.not_judged == {comparing.CHANGED: 1}
    assert probed.differences == []


def test_unknown_settings_are_not_judged() -> None:
    unknown = KnownSettings(None, None)
    probed = cluster_of(super_users=["User:a"]).probe(*ACLS, known=unknown)
    both = "super.users and allow.everyone.if.no.acl.found"
    assert set(probed.not_judged) == {
        comparing.DEPENDS.format("super.users"), comparing.DEPENDS.format(both),
    }  # fmt: skip
    assert probed.differences == []
    assert not probed.is_proof
    assert "super.users is unknown: pass --super-users" in page_lines(probed)
    assert cluster_of().probe(*ACLS, known=unknown).is_proof


def test_resources_beyond_the_maximum_are_counted() -> None:
    """Those that a flag names come first; the cluster is always asked about."""
    named = ((TOPIC, "named"),)
    probed = cluster_of().probe(*ACLS, resources=named, max_resources=2)
    assert (probed.visible, probed.hidden, probed.left_out) == (2, 1, 4)
    assert "not asked about: 4 more resources: --max-resources" in page_lines(probed)


def test_client_without_rights_proves_little() -> None:
    probed = cluster_of(acl("User:b")).probe(acl("User:b"))
    assert probed.differences == []
    assert not probed.is_proof
    assert "this proves little: the brokers show nothing to User:a" in page_lines(probed)
