from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from authorizerd.config.values import parse_principals
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.asking import (
    OPERATION_CODES,
    QUESTION_FIELDS,
    RESOURCE_TYPE_CODES,
    unasked_reason,
)
from authorizerd.replay.judging.index import AclIndex
from tests.ops.replay.acl_sets import acl_set_of
from tests.oracles.scan import decide as scan
from tests.oracles.standard_authorizer import acl_of, decision_cases, question_of
from tests.support.strategies import acls, resource_names


class Asked(NamedTuple):
    """A recorded request that ACLs can decide."""

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str


rows = st.builds(
    Asked,
    st.sampled_from(("User:a", "User:b", "Group:a", "User:root")),
    st.sampled_from((None, "10.0.0.1", "0:0:0:0:0:0:0:1", "10.0.0.2")),
    st.sampled_from(sorted(OPERATION_CODES)),
    st.sampled_from(sorted(RESOURCE_TYPE_CODES)),
    resource_names,
)


def set_of(some: list[Acl], *, allow_everyone: bool = False) -> AclSet:
    return acl_set_of(some, super_users=("User:root",), allow_everyone=allow_everyone)


@given(
    st.lists(acls(unknown_codes=True), max_size=10, unique=True),
    st.lists(rows, max_size=12),
    st.booleans(),
)
def test_decisions_equal_a_scan(some: list[Acl], asked: list[Asked], allow_everyone: bool) -> None:
    index = AclIndex.of(set_of(some, allow_everyone=allow_everyone))
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


def test_decisions_equal_kafkas() -> None:
    decided = 0
    plain_cases = [c for c in decision_cases() if not (c.get("load") or c.get("loading"))]
    for case in plain_cases[::10]:
        some = list(dict.fromkeys(map(acl_of, case["acls"])))
        asked = {
            Asked(
                each.principal,
                each.host,
                Operation(each.operation).name,
                ResourceType(each.resource_type).name,
                each.resource_name,
            ): answer
            for row, answer in zip(case["requests"], case["expect"]["decisions"], strict=True)
            if (each := question_of(row)).operation in OPERATION_CODES.values()
            and each.principal != "User:*"
        }
        plain = set_of(some, allow_everyone=bool(case.get("allowEveryone")))
        trusted = tuple(parse_principals(case.get("superUsers", "")))
        index = AclIndex.of(replace(plain, super_users=trusted))
        answers = [index.answers(each)[0] for each in asked]
        assert ["A" if allowed else "D" for allowed in answers] == list(asked.values()), case["id"]
        decided += len(answers)
    assert decided > 500


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
