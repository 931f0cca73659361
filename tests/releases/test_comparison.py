"""The comparison with Kafka's releases can fail, and its cases have hosts of every kind."""

import sys
from collections import Counter
from copy import deepcopy
from itertools import islice
from typing import Any

import pytest

from authorizerd.acl.hosts import HostKind, get_kind, host_address
from tests.conformance.random_cases import Case
from tests.kafka_rig.oracle import Answer
from tests.kafka_rig.rig import Absent, Rig
from tests.releases import __main__ as command
from tests.releases import decisions
from tests.releases.cases import release_cases
from tests.releases.comparison import Comparison
from tests.releases.hosts import depends_on_broker
from tests.releases.versions import VERSIONS, Compared

ACL = ["TOPIC", "t", "LITERAL", "User:a", "10.0.0.0/8", "READ", "ALLOW"]
CASE: Case = {
    "number": 7,
    "acls": [ACL],
    "requests": [["User:a", "10.1.2.3", "READ", "TOPIC", "t"]],
    "filters": [["TOPIC", "t", "ANY", None, None, "ANY", "ANY"]],
    "byResourceType": [["User:a", "10.1.2.3", "READ", "TOPIC"]],
    "removeIds": [],
    "allowEveryone": False,
}
NEWEST = VERSIONS["4.4.0"]
LINE = (
    "Principal = User:a is {} operation = READ from host = 10.1.2.3 on resource = Topic:LITERAL:t"
    " for request = Metadata with resourceRefCount = 1 based on rule {}"
)
RULE = (
    "MatchingAcl(acl=StandardAcl{}resourceType=TOPIC, resourceName=t, patternType=LITERAL,"
    " principal=User:a, host=10.0.0.0/8, operation=READ, permissionType=ALLOW{})"
)
DENIED: Answer = {
    "decisions": ["D"],
    "audit": [["INFO", LINE.format("Denied", "DefaultDeny")]],
    "filters": [[0]],
    "byResourceType": ["D"],
    "aclCount": 1,
}
ALLOWED: Answer = {
    **DENIED,
    "decisions": ["A"],
    "audit": [["DEBUG", LINE.format("Allowed", RULE.format("[", "]"))]],
    "byResourceType": ["A"],
}
WITH_ROUND_BRACKETS: Answer = {
    **ALLOWED,
    "audit": [["DEBUG", LINE.format("Allowed", RULE.format("(", ")"))]],
}


def differences(case: Case, answer: Answer, release: Compared) -> list[str]:
    return list(Comparison(case, answer, release).find_differences())


@pytest.mark.parametrize(
    ("answer", "release"),
    [(DENIED, VERSIONS["4.3.1"]), (ALLOWED, NEWEST), (WITH_ROUND_BRACKETS, NEWEST)],
)
def test_equal_answers_do_not_differ(answer: Answer, release: Compared) -> None:
    assert differences(CASE, answer, release) == []


@pytest.mark.parametrize(
    ("field", "doctored", "reported"),
    [
        ("decisions", ["D"], ["decided: Kafka 'D', here 'A'", "explained: Kafka 'D', here 'A'"]),
        ("decisions", ["!Exception: null"], ["decided: Kafka '!E", "explained: Kafka '!E"]),
        ("audit", [["INFO", ALLOWED["audit"][0][1]]], ["audited: Kafka ['INFO'"]),
        ("audit", [["DEBUG", LINE.format("Allowed", "SuperUser")]], ["audited: Kafka ['DEBUG'"]),
        ("audit", [None], ["audited: Kafka None"]),
        ("filters", [[]], ["filter ['TOPIC', 't', 'ANY', None, None, 'ANY', 'ANY']: Kafka []"]),
        ("byResourceType", ["D"], ["by resource type ['User:a'"]),
        ("aclCount", 2, ["ACLs: Kafka 2, here 1"]),
    ],
)
def test_doctored_answer_is_reported(field: str, doctored: object, reported: list[str]) -> None:
    found = differences(CASE, {**ALLOWED, field: doctored}, NEWEST)
    assert [text in line for text, line in zip(reported, found, strict=True)] == [True] * len(found)


@pytest.mark.parametrize("permission", ["ALLOW", "DENY"])
@pytest.mark.parametrize("letter", ["A", "D"])
def test_range_that_names_an_interface_never_allows_more_than_any_broker(
    permission: str, letter: str
) -> None:
    """Only a broker knows if it has the interface, so each of its answers is possible."""
    case = deepcopy(CASE)
    asked = ["User:a", "2001:db8::1", "READ", "TOPIC", "t"]
    case.update(requests=[asked], byResourceType=[asked[:4]], filters=[])
    case["acls"] = [[*ACL[:4], "2001:db8::%eth0/32", "READ", permission]]
    if permission == "DENY":
        case["acls"].append([*ACL[:4], "*", "READ", "ALLOW"])
    answer = {"decisions": [letter], "byResourceType": [letter], "filters": [], "audit": [None]}
    assert differences(case, answer | {"aclCount": len(case["acls"])}, NEWEST) == []


def test_difference_ends_the_command_with_1_and_names_the_case(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def doctored(_: Rig, cases: list[Case]) -> list[Any]:
        return [DENIED] * len(cases)

    monkeypatch.setattr(command, "prepare", lambda version: Rig(version))
    monkeypatch.setattr(decisions, "kafka_answers", doctored)
    monkeypatch.setattr(decisions, "release_cases", lambda *_: iter([CASE] * 9000))
    monkeypatch.setattr(sys, "argv", ["releases", "--questions", "6000", "--no-walk"])
    assert command.main() == 1
    printed = capsys.readouterr().out
    assert "repeat: python -m tests.releases --versions 4.4.0 --seed 1 --case 7" in printed
    totals = [line for line in printed.splitlines() if " differences; " in line]
    assert [line.split()[1] for line in totals] == [f"{version}," for version in VERSIONS]
    assert [" 0 differences; 1000 questions" in line for line in totals] == [True] * 5 + [False]


def test_release_that_cannot_run_ends_the_command_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "prepare", lambda version: Absent("no mvn"))
    monkeypatch.setattr(sys, "argv", ["releases", "--versions", "4.4.0"])
    assert command.main() == 2
    assert capsys.readouterr().err == "Kafka 4.4.0: cannot run: no mvn\n"


def test_cases_have_hosts_of_every_kind_and_repeat() -> None:
    cases = list(islice(release_cases(1, "4.4.0"), 300))
    hosts = [row[4] for case in cases for row in case["acls"]]
    kinds = Counter(get_kind(host) for host in hosts)
    assert min(kinds[kind] for kind in HostKind) > 100, kinds
    assert any(map(depends_on_broker, hosts))
    ranges = [host for host in hosts if get_kind(host) is HostKind.RANGE]
    assert len({host.rpartition("/")[2] for host in ranges}) > 80
    clients = [row[1] for case in cases for row in case["requests"]]
    assert None not in map(host_address, clients)
    assert next(release_cases(1, "4.4.0", cases[99]["number"])) == cases[99]


@pytest.mark.parametrize("version", VERSIONS)
def test_cases_have_no_operation_that_the_release_lacks(version: str) -> None:
    for case in islice(release_cases(1, version), 300):
        rows = (*(row[5] for row in (*case["acls"], *case["filters"])),)
        asked = (row[2] for row in (*case["requests"], *case["byResourceType"]))
        assert not {*rows, *asked} & {*VERSIONS[version].lacking}
