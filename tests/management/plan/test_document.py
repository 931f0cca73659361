"""Documents of plans: what is written is read, and an altered plan is rejected."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.acl.text.named_acl import name_acl, parse_acl
from authorizerd.management.plan.changes import make_changes
from authorizerd.management.plan.document import (
    Plan,
    PlanCheck,
    PlanSettings,
    PlanSource,
    State,
    decode_plan,
    encode_plan,
    name_steps,
)
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.names import has_known_codes
from authorizerd.management.plan.selector import Managed, Selector
from authorizerd.management.plan.state import change_digest, digest_acls
from tests.support.acls import acl
from tests.support.strategies import acls, any_acls

Document = dict[str, Any]

desired_acls = st.lists(acls().filter(lambda each: each.resource_name != ""), max_size=5)
present_acls = st.lists(acls() | acls(unknown_codes=True), max_size=5, unique=True)


def new_plan(present: list[Acl], desired: list[Acl], manages: list[Managed] | None = None) -> Plan:
    selector = Selector(manages)
    changes = make_changes(present, desired, selector)
    digest = digest_acls(present)
    count = len(present) + len(changes.created) - len(changes.deleted)
    return Plan(
        made_for=PlanSource(place="log", name="log", offset=7, acls=len(present), digest=digest),
        leads_to=State(count, change_digest(digest, changes)),
        settings=PlanSettings(("User:root",), True),
        manages=selector.document,
        warnings=("careful",),
        checks=(
            PlanCheck(
                name="tests", breaks=True, summary="1 failed", counts={"tests": 1}, broken=("a",)
            ),
        ),
        steps=name_steps(changes),
    )


@given(present_acls, desired_acls)
def test_written_plan_is_read(present: list[Acl], desired: list[Acl]) -> None:
    plan = new_plan(present, desired)
    data = encode_plan(plan)
    assert decode_plan(data) == plan
    assert encode_plan(decode_plan(data)) == data
    assert plan.changes == make_changes(present, desired, Selector(None))


def test_plan_may_be_laid_out_anew() -> None:
    """For example by a tool that sorts the keys. The values are the same."""
    plan = new_plan(PRESENT, DESIRED)
    document = json.loads(encode_plan(plan))
    assert decode_plan(json.dumps(document, sort_keys=True, indent=8).encode()) == plan


@given(present_acls, desired_acls)
def test_digest_after_changes_is_that_of_the_state(present: list[Acl], desired: list[Acl]) -> None:
    changes = make_changes(present, desired, Selector(None))
    after = (set(present) | set(changes.created)) - set(changes.deleted)
    assert change_digest(digest_acls(present), changes) == digest_acls(after)


@given(any_acls)
def test_names_keep_every_known_acl(one: Acl) -> None:
    codes = (
        (ResourceType, one.resource_type), (PatternType, one.pattern_type),
        (Operation, one.operation), (PermissionType, one.permission_type),
    )  # fmt: skip
    names = [kind.read(code).name for kind, code in codes]
    assert has_known_codes(one) == {"UNKNOWN", "ANY", "MATCH"}.isdisjoint(names)
    if has_known_codes(one):
        assert parse_acl(name_acl(one)) == one


def test_document_has_one_acl_in_each_line_and_hides_no_character() -> None:
    odd = acl("User:\u202eevil", topic="ключ")
    text = encode_plan(new_plan([acl("User:b")], [acl("User:a"), odd])).decode()
    (line,) = [line for line in text.splitlines() if "evil" in line]
    assert "\\u202e" in line
    assert line.isprintable()
    assert [line.strip()[:16] for line in text.splitlines()].count('{"resource_type"') == 3


PRESENT = [acl("User:a"), acl("User:b", "WRITE")]
DESIRED = [acl("User:a"), acl("User:c", deny=True)]


def edit(change: Callable[[Document], object]) -> bytes:
    document = json.loads(encode_plan(new_plan(PRESENT, DESIRED)))
    change(document)
    return json.dumps(document).encode()


def added_acl(step: str, *entries: Acl) -> Callable[[Document], object]:
    named = [json.loads(json.dumps(_fields(each))) for each in entries]
    return lambda document: document["steps"][step].extend(named)


def _fields(one: Acl) -> dict[str, str]:
    named = name_acl(one)
    return {field: getattr(named, field) for field in named.__struct_fields__}


@pytest.mark.parametrize(("change", "place", "reason"), [
    (lambda it: it.update(format="x"), "format", "expected authorizerd-acl-plan"),
    (lambda it: it.update(version=2), "version", "expected 1, found 2: use the version of"),
    (lambda it: it.update(version=True), "version", "expected 1, found true"),
    (lambda it: it.update(more=1), "document", "contains unknown field `more`"),
    (lambda it: it.pop("steps"), "document", "missing required field `steps`"),
    (lambda it: it["leads_to"].update(digest="00"), "leads_to.digest", "matching regex"),
    (lambda it: it["leads_to"].update(acls=-1), "leads_to.acls", "Expected `int` >= 0"),
    (lambda it: it.update(manages=[]), "manages", "expected an entry, or everything"),
    (lambda it: it.update(manages="nothing"), "manages", "nothing"),
    (lambda it: it.update(manages=[{}]), "manages[0]", "expected at least one field"),
    (lambda it: it.update(manages=[{"principal": "User:x"}]), "steps.create_deny[0]",
     "the plan does not manage this ACL"),
    (added_acl("create_deny", acl("User:d")), "steps.create_deny[1]", "expected an ACL with"),
    (added_acl("create_allow", acl("User:d"), acl("User:d")), "steps.create_allow[1]",
     "repeats an ACL of the plan"),
    (added_acl("delete_allow", acl("User:d"), acl("User:b", "WRITE")), "steps.delete_allow[2]",
     "repeats an ACL of the plan"),
    (added_acl("create_allow", acl("User:d", topic="")), "steps.create_allow[0]",
     "Kafka would refuse to create it (Invalid empty resource"),
    (added_acl("create_allow", acl("User:d")), "steps", "the plan was changed after"),
    (lambda it: it["steps"]["delete_allow"].clear(), "steps", "do not lead from the state"),
    (lambda it: it["steps"]["create_deny"][0].update(principal="User:z"), "steps",
     "do not lead from the state"),
    (lambda it: it["made_for"].update(acls=3), "steps", "do not lead from the state"),
    (lambda it: it["steps"]["create_deny"][0].update(operation="FLY"),
     "steps.create_deny[0].operation", "Invalid enum value 'FLY'"),
    *(
        (
            lambda it, named=named: it["steps"]["delete_allow"][0].update(named),
            "steps.delete_allow[0]", "expected the names of codes that Kafka can create",
        )
        for named in ({"operation": "UNKNOWN"}, {"pattern_type": "ANY"})
    ),
    (lambda it: it["checks"][0].update(breaks=False), "sha256", "was changed after"),
    (lambda it: it["checks"][0]["counts"].update(tests=0), "sha256", "was changed after"),
    (lambda it: it["checks"][0]["broken"].clear(), "sha256", "was changed after"),
    (lambda it: it["checks"].clear(), "sha256", "was changed after"),
    (lambda it: it["warnings"].clear(), "sha256", "was changed after"),
    (lambda it: it["settings"].update({"super.users": []}), "sha256", "was changed after"),
    (lambda it: it["made_for"].update(name="other"), "sha256", "was changed after"),
    (lambda it: it.pop("sha256"), "sha256", "was changed after"),
    (lambda it: it.update(sha256=None), "sha256", "was changed after"),
])  # fmt: skip
def test_altered_plan_is_rejected(
    change: Callable[[Document], object], place: str, reason: str
) -> None:
    with pytest.raises(PlanError) as caught:
        decode_plan(edit(change))
    assert (caught.value.place, reason in caught.value.reason) == (place, True), caught.value
    assert "authorizerd acls plan" in caught.value.reason or place.startswith("manages")


@pytest.mark.parametrize(("data", "reason"), [
    (b"", "line 1: not JSON"),
    (b"acls: []", "expected a plan, as 'authorizerd acls plan --out' writes it"),
    (b'{"acls": []}', "expected a plan, as 'authorizerd acls plan --out' writes it"),
    (b"[]", "format: expected authorizerd-acl-plan"),
    (b"\xff", "byte 0: not valid UTF-8"),
    (b'{"format": "\\ud800"}', "expected text, found half of a surrogate pair"),
    (b'{"format": 1, "format": 2}', "duplicate key 'format'"),
])  # fmt: skip
def test_other_file_is_rejected(data: bytes, reason: str) -> None:
    """A repeated key could show a reviewer another value than the one that is applied."""
    with pytest.raises(PlanError) as caught:
        decode_plan(data)
    assert reason in str(caught.value)


def test_plan_breaks_something_if_a_check_does() -> None:
    plan = new_plan(PRESENT, DESIRED)
    assert plan.breaks
    assert [each.breaks for each in decode_plan(encode_plan(plan)).checks] == [True]
