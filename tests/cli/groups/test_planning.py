"""``acls plan --groups``: its report, the plan that it writes, and its errors."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.management.formats.catalogue import FORMATS, read_acl_text
from authorizerd.management.formats.listing import format_acls
from authorizerd.management.plan.document import decode_plan
from authorizerd.management.review.sheet import ACL_COLUMNS, name_cells, write_sheet
from tests.support.acls import KNOWN_SETTINGS, acl
from tests.support.printed import Printed, run_main

READ = acl("Group:readers", "READ", topic="orders")
DENY = acl("Group:readers", "WRITE", topic="orders", deny=True, host="10.0.0.7")
BOB = acl("User:bob", "READ", topic="orders")
GROUPS = "set: payments\nmay_be_empty: [readers]\ngroups:\n  readers: {}\n"
SCOPE = ("--principal", "User:carol")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "now.txt").write_text(format_acls([BOB]))
    (tmp_path / "desired.txt").write_text(format_acls([READ, DENY]))
    members("User:alice", "User:bob")
    return tmp_path


def members(*names: str) -> None:
    Path("groups.yaml").write_text(GROUPS.format(json.dumps(names)))


def plan(*words: str, code: int = 0) -> Printed:
    fixed = ("acls", "plan", "desired.txt", "--acls", "now.txt", *KNOWN_SETTINGS, *SCOPE)
    return run_main(*fixed, *words, code=code)


def apply() -> list[Acl]:
    """Return the ACLs after the written plan, which become the present ones."""
    changes = decode_plan(Path("plan.json").read_bytes()).changes
    present = read_acl_text(Path("now.txt").read_text(), ".txt").acls
    after = [each for each in (*present, *changes.created) if each not in changes.deleted]
    Path("now.txt").write_text(format_acls(after))
    return after


def test_plan_shows_groups_and_collapses_notes() -> None:
    printed = plan("--groups", "groups.yaml", "--out", "plan.json", code=10)
    assert (
        printed.out
        == """\
topic literal `orders`
+   ALLOW User:alice READ from any host (readers)
+   DENY User:alice WRITE from 10.0.0.7 (readers)
+   DENY User:bob WRITE from 10.0.0.7 (readers)

3 ACLs to create (2 DENY, 1 ALLOW), 0 to delete (0 ALLOW, 0 DENY), and notes: 1 to create, \
0 to delete: 1 before, 5 after
this plan manages only these ACLs:
  principal=User:carol
as listed by now.txt, with 1 ACL
with super.users= (--super-users), allow.everyone.if.no.acl.found=false \
(--allow-everyone-if-no-acl-found)
warning: 1 ACL that groups give did not come from groups, such as READ on topic literal `orders` \
to User:bob: a member who leaves keeps this access
written to plan.json
"""
    )
    text = Path("plan.json").read_text()
    assert '"permission_type": "ALLOW", "groups": ["readers"]}' in text
    assert '"group_set": "payments"' in text
    made = decode_plan(text.encode())
    assert [is_note(each) for each in made.changes.create_deny] == [True, False, False]
    apply()
    assert plan("--groups", "groups.yaml").out.startswith("nothing to do: 5 ACLs, as desired")
    members()
    printed = plan("--groups", "groups.yaml", "--out", "plan.json", code=10)
    assert "-   DENY User:bob WRITE from 10.0.0.7 (readers)" in printed.out
    assert "warning: this plan deletes 2 DENY ACLs" in printed.out
    assert apply() == [BOB]


def test_review_that_removes_what_groups_made_says_so() -> None:
    """Otherwise, the owner would believe that the member has no access any more."""
    plan("--groups", "groups.yaml", "--out", "plan.json", code=10)
    apply()
    row = dict(zip(ACL_COLUMNS, name_cells(replace(BOB, principal="User:alice")), strict=True))
    sheet = write_sheet("", [{**row, "owner": "", "also_owned_by": "", "id": ""}])
    head, line = sheet.splitlines()
    Path("review.csv").write_text(f"{head}\nremove{line}\n")
    words = ("--review", "review.csv", "--acls", "now.txt", *KNOWN_SETTINGS)
    assert "warning: 1 ACL that the groups of payments made: its next plan with --groups" in (
        run_main("acls", "plan", *words, code=10).out
    )


def test_group_without_members_given_is_a_literal_principal() -> None:
    printed = run_main("acls", "plan", "desired.txt", "--acls", "now.txt", *KNOWN_SETTINGS, code=10)
    assert "+   ALLOW Group:readers READ from any host\n" in printed.out
    assert "warning: the desired files name 1 group, such as Group:readers: Kafka does not" in (
        printed.out
    )
    assert run_main("acls", "plan", "now.txt", "--acls", "now.txt", *KNOWN_SETTINGS).out.count(
        "group"
    ) == 0  # fmt: skip


def test_plan_without_groups_keeps_what_groups_made() -> None:
    plan("--groups", "groups.yaml", "--out", "plan.json", code=10)
    apply()
    Path("desired.txt").write_text(format_acls([BOB]))
    printed = run_main("acls", "plan", "desired.txt", "--acls", "now.txt", *KNOWN_SETTINGS)
    assert "warning: kept: 3 ACLs that the groups of payments made: only a plan with" in printed.out
    members()
    printed = plan("--groups", "groups.yaml", "--principal", "User:bob", code=10)
    assert "0 ACLs to create" in printed.out
    assert "-   ALLOW User:alice READ from any host (a group)" in printed.out


def test_plan_without_groups_has_no_fields_about_them() -> None:
    Path("desired.txt").write_text(format_acls([acl("User:carol")]))
    assert "group" not in plan("--json", code=10).out


@pytest.mark.parametrize(("text", "reason"), [
    ("set: x\ngroups:\n  a: [alice]\n", "groups.yaml: line 3, column 7: groups.a[0]: expected"),
    ("set: x\ngroups: {}\n", "desired ACLs: no group has the name 'readers'"),
    ("set: x\ngroups:\n  reader: ['User:a']\n", "'readers' (did you mean reader?)"),
    (None, "groups.yaml: No such file"),
])  # fmt: skip
def test_faulty_groups_give_no_plan(text: str | None, reason: str) -> None:
    Path("groups.yaml").unlink() if text is None else Path("groups.yaml").write_text(text)
    printed = plan("--groups", "groups.yaml", "--out", "plan.json", code=1)
    assert reason in printed.err
    assert not Path("plan.json").exists()


def test_plan_never_replaces_the_file_of_groups() -> None:
    printed = plan("--groups", "groups.yaml", "--out", "groups.yaml", code=1)
    assert "--out groups.yaml: the file is also --groups" in printed.err


def test_damaged_note_gives_no_plan() -> None:
    plan("--groups", "groups.yaml", "--out", "plan.json", code=10)
    apply()
    text = Path("now.txt").read_text()
    Path("now.txt").write_text(text.replace("set=payments&", "set=payments&x=y&"))
    assert "cannot be read, so it is unknown which ACLs are theirs" in plan(code=1).err


NAMED = [READ, acl("Group:readers", "READ", group="x")]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_that_can_name_a_principal_can_name_a_group(name: str) -> None:
    form = FORMATS[name]
    written = form.write(NAMED)
    reasons = {loss.reason for loss in written.losses}
    read = {each.principal for each in form.read(written.text).acls} if not reasons else set()
    assert read == {"Group:readers"} or any("User:" in reason for reason in reasons), reasons
