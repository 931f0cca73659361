from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from authorizerd.config.values import super_users
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.asking import (
    OPERATION_CODES,
    QUESTION_FIELDS,
    RESOURCE_TYPE_CODES,
    unasked_reason,
)
from authorizerd.replay.judging.index import build_index
from authorizerd.replay.judging.questions import decide, rules, unasked_reasons
from tests.ops.replay.acl_sets import acl_set_of
from tests.oracles.scan import decide as scan
from tests.oracles.standard_authorizer import acl_of, decision_cases, question_of
from tests.support.strategies import acls, resource_names

Row = tuple[str | None, str | None, str, str, str]

rows = st.tuples(
    st.sampled_from(("User:a", "User:b", "Group:a", "User:root")),
    st.sampled_from((None, "10.0.0.1", "0:0:0:0:0:0:0:1", "10.0.0.2")),
    st.sampled_from(sorted(OPERATION_CODES)),
    st.sampled_from(sorted(RESOURCE_TYPE_CODES)),
    resource_names,
)


def batch_of(some: list[Row]) -> pa.RecordBatch:
    columns = list(zip(*some, strict=True)) or [()] * len(QUESTION_FIELDS)
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(QUESTION_FIELDS))


def set_of(some: list[Acl], *, allow_everyone: bool = False) -> AclSet:
    return acl_set_of(some, super_users=("User:root",), allow_everyone=allow_everyone)


def question(row: Row) -> Question:
    principal, host, operation, resource_type, name = row
    assert principal is not None
    return Question(principal, host, Operation[operation], ResourceType[resource_type], name)


@given(
    st.lists(acls(unknown_codes=True), max_size=10, unique=True),
    st.lists(rows, max_size=12),
    st.booleans(),
    st.integers(0, 3),
)
def test_batch_decisions_equal_a_scan(
    some: list[Acl], asked: list[Row], allow_everyone: bool, start: int
) -> None:
    index = build_index(set_of(some, allow_everyone=allow_everyone))
    batch = batch_of(asked).slice(start)
    expected: list[tuple[bool, str]] = []
    for row in asked[start:]:
        if row[0] == "User:root":
            expected.append((True, "SuperUser"))
            continue
        allowed, acl = scan(some, allow_everyone, question(row))
        default = "DefaultAllow" if allowed else "DefaultDeny"
        expected.append((allowed, default if acl is None else f"MatchingAcl(acl={acl})"))
    assert decide(index, batch).to_pylist() == [allowed for allowed, _ in expected]
    assert rules(index, batch) == [rule for _, rule in expected]


def test_batch_decisions_equal_kafkas() -> None:
    decided = 0
    plain_cases = [c for c in decision_cases() if not (c.get("load") or c.get("loading"))]
    for case in plain_cases[::10]:
        some = list(dict.fromkeys(map(acl_of, case["acls"])))
        asked = {
            (
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
        trusted = tuple(super_users(case.get("superUsers", "")))
        index = build_index(replace(plain, super_users=trusted))
        answers = decide(index, batch_of(list(asked))).to_pylist()
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
    batch = pa.RecordBatch.from_pylist(
        [row | {"pattern_type": pattern_type}],
        pa.schema({name: pa.string() for name in (*QUESTION_FIELDS, "pattern_type")}),
    )
    assert unasked_reasons(batch).to_pylist() == [reason]
    assert unasked_reason(SimpleNamespace(**row, pattern_type=pattern_type)) == reason


@pytest.mark.parametrize("row", [
    ("User:a", "h", "ANY", "TOPIC", "t"), ("User:a", "h", "READ", "Topic", "t"),
    ("User:*", "h", "READ", "TOPIC", "t"),
])  # fmt: skip
def test_undecidable_row_is_rejected(row: Row) -> None:
    for ask in (decide, rules):
        with pytest.raises(InvalidQuestionError):
            ask(build_index(set_of([])), batch_of([row]))
