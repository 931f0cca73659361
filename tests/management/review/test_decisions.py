"""What owners' decisions remove, and what is named instead."""

import pytest

from authorizerd.acl.model import Acl
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.state import digest_acls
from authorizerd.management.review.decisions import Decisions, decide
from authorizerd.management.review.sheet import KEEP, REMOVE, Row, Sheet, name_cells, name_id
from tests.support.acls import acl

A, B = acl("User:a", "READ", topic="t"), acl("User:b", "READ", topic="t", host="10.0.0.1")
UUID = bytes(16)
NONE = ""
NAMED = "ALLOW User:a READ on TOPIC LITERAL t is not removed: "


def row(
    decision: str, each: Acl = A, owner: str = "orders", others: tuple[str, ...] = (),
    uuid: bytes | None = UUID, comment: str = "unused",
) -> tuple[str, Row]:  # fmt: skip
    found = Row(2, name_cells(each), owner, others, name_id(each, uuid), decision, comment)
    return f"{owner}.csv", found


def decided(
    *rows: tuple[str, Row], present: dict[bytes, Acl] | None = None, has_ids: bool = True
) -> Decisions:
    present = {UUID: A, b"b" * 16: B} if present is None else present
    state = digest_acls(present.values())
    sheets = [(name, Sheet(state, (each,))) for name, each in rows]
    return decide(sheets, present, has_ids=has_ids)


@pytest.mark.parametrize(("rows", "reasons"), [
    ([row(REMOVE)], {A: "orders: unused"}),
    ([row(REMOVE, comment="")], {A: "orders: removed in an access review"}),
    ([row(REMOVE, owner="")], {A: "no owner: unused"}),
    ([row(REMOVE), row(REMOVE, B, uuid=b"b" * 16)], {A: "orders: unused", B: "orders: unused"}),
    ([row(REMOVE), row(KEEP, B)], {A: "orders: unused"}),
    ([row(NONE), row(KEEP, B)], {}),
    ([row(REMOVE, others=("edge",)), row(REMOVE, owner="edge", others=("orders",), comment="x")],
     {A: "orders: unused; edge: x"}),
    ([row(REMOVE, uuid=None)], {A: "orders: unused"}),
])  # fmt: skip
def test_acls_that_all_owners_want_to_remove_are_removed(
    rows: list[tuple[str, Row]], reasons: dict[Acl, str]
) -> None:
    found = decided(*rows)
    assert (found.removed, found.notes) == (reasons, [])
    assert set(found.kept) == {A, B}.intersection(
        each for each in (A, B) if name_cells(each) in {row.acl for _, row in rows}
    ).difference(reasons)


@pytest.mark.parametrize(("rows", "present", "note"), [
    ([row(REMOVE)], {b"b" * 16: B}, "it is gone since the review"),
    ([row(REMOVE)], {b"c" * 16: A}, "it was removed and made again since the review"),
    ([row(REMOVE, others=("edge", "x"))], None,
     "it also belongs to edge and x, who did not decide to remove it"),
    ([row(REMOVE, others=("edge",)), row(NONE, owner="edge", others=("orders",))], None,
     "it also belongs to edge, who did not decide to remove it"),
])  # fmt: skip
def test_other_acls_are_named_and_kept(
    rows: list[tuple[str, Row]], present: dict[bytes, Acl] | None, note: str
) -> None:
    found = decided(*rows, present=present)
    assert (found.removed, found.notes) == ({}, [NAMED + note])


def test_acl_made_again_is_not_noticed_without_uuids() -> None:
    assert decided(row(REMOVE), present={b"c" * 16: A}, has_ids=False).removed


def test_acls_that_look_alike_and_unknown_codes_are_kept() -> None:
    lines, slash = (acl("User:a", "READ", group=name) for name in ("a\nb", "a\\nb"))
    (note,) = decided(row(REMOVE, lines), present={UUID: lines, b"s" * 16: slash}).notes
    assert note.endswith("several ACLs look like it, because unprintable characters are escaped")
    later = Acl(2, "t", 3, "User:a", "*", 99, 3)
    (note,) = decided(row(REMOVE, later), present={UUID: later}).notes
    assert note.endswith("it has a code of a later Kafka version")


def test_two_decisions_about_an_acl_are_rejected() -> None:
    with pytest.raises(PlanError) as raised:
        decided(row(REMOVE, others=("edge",)), row(KEEP, owner="edge", others=("orders",)))
    assert str(raised.value) == (
        "orders.csv: line 2: two decisions about ALLOW User:a READ on TOPIC LITERAL t: remove here,"
        " keep in edge.csv: line 2: let the owners agree"
    )


def test_changed_state_is_noted() -> None:
    sheet = Sheet("ab" * 24, (row(REMOVE)[1],))
    found = decide([("x.csv", sheet)], {UUID: A}, has_ids=True)
    assert found == Decisions(
        {A: "orders: unused"}, [], ["x.csv: the ACLs have changed since the review"]
    )
