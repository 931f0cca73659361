"""``authorizerd acls plan``: its report, the plan that it writes, and its exit codes."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.model import Acl
from authorizerd.cli.broker_acls import BrokerAnswer
from authorizerd.cli.change.plan_files import read_desired
from authorizerd.management.formats.document import write_json_document
from authorizerd.management.formats.listing import format_acls
from authorizerd.management.plan.changes import AclChanges
from authorizerd.management.plan.document import Plan, PlanSettings, decode_plan
from authorizerd.management.plan.state import digest_acls
from tests.support.acls import KNOWN_SETTINGS, acl, snapshot_of
from tests.support.log_files import added, write_log
from tests.support.printed import Printed, run_main

ALICE = acl("User:alice", "READ", topic="orders", host="10.0.0.7")
BOB = acl("User:bob", "WRITE", topic="payments.", pattern="PREFIXED")
CAROL = acl("User:carol", "READ", topic="orders")
MALLORY = acl("User:mallory", "ALL", topic="orders", deny=True)
EVIL = acl("User:\x1b[31mevil\u202e", "WRITE", topic="orders")

REPORT = """\
topic literal `orders`
+   ALLOW User:carol READ from any host
+   DENY User:mallory ALL from any host
topic prefix `payments.`
-   ALLOW User:bob WRITE from any host

2 ACLs to create (1 DENY, 1 ALLOW), 1 to delete (1 ALLOW, 0 DENY): 2 before, 3 after
this plan manages ALL ACLs: it deletes every ACL that is not desired, 1 of 2
as listed by now.txt, with 2 ACLs
with super.users= (--super-users), allow.everyone.if.no.acl.found unknown; pass --config FILE for \
the daemon's settings, or --allow-everyone-if-no-acl-found
warning: this plan removes the last ACL of topic prefix `payments.`: if \
allow.everyone.if.no.acl.found is true, everyone may then do everything there. Its value is not \
known; pass it
written to plan.json
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "now.txt").write_text(format_acls([ALICE, BOB]))
    (tmp_path / "desired.txt").write_text(format_acls([ALICE, CAROL, MALLORY]))
    (tmp_path / "tests.yaml").write_text(
        "tests:\n  - bob may WRITE topics beginning with payments.\n"
        "  - zoe may READ topic orders\n  - mallory may not READ any topic\n"
    )
    return tmp_path


def plan(
    words: str, source: str = f"--acls now.txt {' '.join(KNOWN_SETTINGS)}", *, code: int = 0
) -> Printed:
    return run_main("acls", "plan", *words.split(), *source.split(), code=code)


def written() -> Plan:
    return decode_plan(Path("plan.json").read_bytes())


def test_plan_is_shown_and_written() -> None:
    printed = plan("desired.txt --out plan.json", "--acls now.txt --super-users=", code=10)
    assert printed.out == REPORT
    made = written()
    assert made.settings == PlanSettings((), None)
    assert "reasons" not in json.loads(Path("plan.json").read_bytes())
    assert made.changes == AclChanges(
        create_deny=(MALLORY,), create_allow=(CAROL,), delete_allow=(BOB,)
    )
    assert made.leads_to.digest == digest_acls([ALICE, CAROL, MALLORY])
    assert not made.breaks
    assert sorted(path.name for path in Path().iterdir()) == [
        "desired.txt", "now.txt", "plan.json", "tests.yaml",
    ]  # fmt: skip


def test_same_inputs_give_the_same_bytes() -> None:
    texts = []
    for order in ([ALICE, CAROL, MALLORY], [MALLORY, CAROL, ALICE]):
        Path("desired.txt").write_text(format_acls(order))
        plan("desired.txt --out plan.json", code=10)
        texts.append(Path("plan.json").read_bytes())
    assert texts[0] == texts[1]


def test_json_is_the_plan() -> None:
    printed = plan("desired.txt --json --out plan.json", code=10)
    assert printed.out == Path("plan.json").read_text()


def test_nothing_to_do() -> None:
    assert plan("now.txt --out plan.json").out.startswith("nothing to do: 2 ACLs, as desired\n")
    assert not written().changes.count


def test_several_files_add_up() -> None:
    plan("desired.txt now.txt --out plan.json", code=10)
    assert written().changes.created == (MALLORY, CAROL)
    assert not written().changes.deleted


@pytest.mark.parametrize(("flags", "deleted", "manages"), [
    ("--principal User:bob", (BOB,), {"principal": "User:bob"}),
    ("--principal-prefix User:b", (BOB,), {"principal_prefix": "User:b"}),
    ("--topic orders", (ALICE,), {"resource_type": "TOPIC", "resource_name": "orders"}),
    ("--topic-prefix pay", (BOB,), {"resource_type": "TOPIC", "resource_name_prefix": "pay"}),
    ("--topic payments.x --resource-pattern-type match", (BOB,),
     {"resource_type": "TOPIC", "resource_name": "payments.x", "pattern_type": "MATCH"}),
    ("--cluster", (), {"resource_type": "CLUSTER"}),
    ("--group-prefix x", (), {"resource_type": "GROUP", "resource_name_prefix": "x"}),
    ("--principal User:alice --topic payments.", (),
     {"principal": "User:alice", "resource_type": "TOPIC", "resource_name": "payments."}),
])  # fmt: skip
def test_flags_set_the_scope(flags: str, deleted: tuple[Acl, ...], manages: dict[str, str]) -> None:
    Path("none.yaml").write_text("acls: []\n")
    plan(f"none.yaml {flags} --out plan.json", code=10 if deleted else 0)
    assert written().changes.deleted == deleted
    assert json.loads(Path("plan.json").read_text())["manages"] == [manages]


MANAGING = """\
manages: [{principal: "User:alice"}, {principal_prefix: "User:b"}]
acls: []
"""
KAFKA_USER = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaUser
metadata: {name: bob}
spec:
  authorization: {type: simple, acls: []}
"""


@pytest.mark.parametrize(("files", "flags", "deleted"), [
    ({"a.yaml": MANAGING}, "", {ALICE, BOB}),
    ({"a.yaml": MANAGING}, "--principal User:carol", {CAROL}),
    ({"user.yaml": KAFKA_USER}, "", {BOB}),
    ({"user.yaml": KAFKA_USER, "a.yaml": MANAGING}, "", {ALICE, BOB}),
    ({"user.yaml": KAFKA_USER, "all.yaml": "acls: []"}, "", {ALICE, BOB, CAROL}),
])  # fmt: skip
def test_files_say_what_is_managed_unless_flags_do(
    files: dict[str, str], flags: str, deleted: set[Acl]
) -> None:
    Path("now.txt").write_text(format_acls([ALICE, BOB, CAROL]))
    for name, text in files.items():
        Path(name).write_text(text)
    plan(f"{' '.join(files)} {flags} --out plan.json", code=10 if deleted else 0)
    assert {*written().changes.deleted} == deleted


NOTHING_READ = {
    "tf.json": '{"format_version": "1.2", "terraform_version": "1.9.0", "resource_changes": []}',
    "list.yaml": "apiVersion: v1\nkind: List\nitems: []\n",
    "topic.yaml": "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\n",
    "secret.yaml": "apiVersion: v1\nkind: Secret\n",
    "topology.yaml": "context: a\nprojects: [{name: b, topics: [{name: c}]}]\n",
    "listing.txt": "ACLs for principal `User:bob`\n",
    "acls.csv": "Principal,ResourceType,PatternType,ResourceName,Operation,PermissionType,Host\n",
    "rpk.txt": "PRINCIPAL  HOST  RESOURCE-TYPE  RESOURCE-NAME  RESOURCE-PATTERN-TYPE  OPERATION  "
    "PERMISSION\n",
    "state.yaml": "topics:\n  a: {partitions: 1}\n",
    "aiven.tf.json": '{"format_version": "1.2", "planned_values": {"root_module": {"resources": ['
    '{"address": "a.b", "mode": "managed", "type": "aiven_kafka_acl"}]}}}',
}
OTHER_KIND = f"apiVersion: x.y/v1\nkind: Widget\n---\n{KAFKA_USER}"


@pytest.mark.parametrize("name", NOTHING_READ)
def test_file_of_which_nothing_was_read_deletes_nothing(name: str) -> None:
    """Its kind may have ACLs that this version does not read. The user may say that it has none."""
    Path(name).write_text(NOTHING_READ[name])
    for flags in ("", "--principal User:bob"):
        printed = plan(f"{name} now.txt {flags} --out plan.json", code=1)
        found = "none that can be read: a.b: " if name.startswith("aiven") else "neither ACLs nor"
        assert f"{name}: expected desired ACLs, found {found}" in printed.err
    assert not Path("plan.json").exists()
    plan(f"{name} --principal User:bob --accept-losses --out plan.json", code=10)
    assert written().changes.deleted == (BOB,)
    printed = plan(f"{name} --accept-losses", code=1)
    assert "the desired files manage no ACLs: select some with a flag" in printed.err


def test_resource_of_which_nothing_was_read_deletes_nothing() -> None:
    Path("user.yaml").write_text(OTHER_KIND)
    printed = plan("user.yaml --out plan.json", code=1)
    assert "user.yaml: document[0]: a resource of kind Widget is not" in printed.err
    plan("user.yaml --accept-losses --out plan.json", code=10)
    assert written().changes.deleted == (BOB,)
    assert "Widget" in written().warnings[0]


@pytest.mark.parametrize("name", ["${TEAM}-orders", "{{ .Values.team }}"])
def test_name_with_a_placeholder_is_not_planned(name: str) -> None:
    """The plan would delete the ACLs of the real name."""
    Path("desired.txt").write_text(format_acls([acl(topic=name)]))
    assert "desired.txt: a name has the placeholder" in plan("desired.txt", code=1).err
    plan("desired.txt --accept-losses", code=10)


def test_file_that_was_read_in_part_deletes_only_what_it_manages() -> None:
    """The part of a topology that is lost may grant what a flag or another file selects."""
    topology = {
        "context": "a",
        "projects": [{
            "name": "b", "topics": [{"name": "c", "producers": [{"principal": "User:bob"}]}],
            "custom": [{"principal": "User:alice"}],
        }],
    }  # fmt: skip
    Path("topology.json").write_text(json.dumps(topology))
    plan("topology.json --out plan.json", code=10)
    assert written().changes.deleted == (BOB,)
    Path("none.yaml").write_text("acls: []\n")
    for words in ("topology.json none.yaml", "topology.json --topic-prefix o --topic-prefix a."):
        error = plan(words, code=1).err
        assert "topology.json may grant or deny what the plan would delete, Standard" in error
        assert "projects[0].custom[0]: Julie's file of custom roles" in error
    plan("topology.json none.yaml --accept-losses --out plan.json", code=10)
    assert {*written().changes.deleted} == {ALICE, BOB}
    # What it names becomes permanent.
    named = read_desired(Path("topology.json"), accepts_losses=True).acls
    grant = Grant(id="1", acl=named[0], begin_ms=0, end_ms=2**42, author="User:ops", reason="why")
    Path("now.json").write_text(write_json_document([*named, make_grant_note(grant)]).text)
    plan("topology.json --out plan.json", f"--acls now.json {' '.join(KNOWN_SETTINGS)}", code=10)
    assert written().changes.deleted == (make_grant_note(grant),)


@pytest.mark.parametrize(("files", "words", "error"), [
    ({}, "desired.txt --principal User:bob",
     "the plan does not manage the desired StandardAcl["),
    ({}, "desired.txt --principal User:bob", ", and 2 more: select it too"),
    ({}, "absent.txt", "absent.txt: No such file or directory"),
    ({}, "desired.txt --tests absent.yaml", "absent.yaml"),
    ({}, "desired.txt --out .", ".: expected a file or nothing, found something else"),
    ({}, "desired.txt --out no/plan.json", "no/plan.json: not written: No such file or directory"),
    ({"bad.yaml": "tests: [alice may RAED topic orders]"},
     "desired.txt --tests bad.yaml --out plan.json", "bad.yaml:1:19: unknown operation 'RAED'"),
    # A listing that failed leaves an empty file.
    ({"empty.txt": "\n"}, "empty.txt", "empty.txt: expected desired ACLs, found an empty file"),
    ({"empty.yaml": "\n"}, "empty.yaml", "empty.yaml: expected desired ACLs, found an empty file"),
])  # fmt: skip
def test_fault_ends_with_1_and_no_plan(files: dict[str, str], words: str, error: str) -> None:
    for name, text in files.items():
        Path(name).write_text(text)
    assert error in plan(words, code=1).err
    assert not Path("plan.json").exists()


@pytest.mark.parametrize(("words", "source", "error"), [
    ("", None, "expected either files of desired ACLs, or --review"),
    ("desired.txt --review orders.csv", None, "expected either files of desired ACLs, or --review"),
    ("--review orders.csv --topic t", None, "--review: expected no flags that select ACLs"),
    ("desired.txt", "", "expected --log-dir DIR, --acls FILE, --config FILE"),
    ("desired.txt --as-of 3", None, "--as-of: a plan changes the current ACLs"),
    ("desired.txt --principal bob", None, "principal: expected Type:name"),
    ("desired.txt --topic=", None, "resource-name: expected a text, found an empty one"),
    ("desired.txt --resource-pattern-type any", None, "expected the name of a resource"),
    ("desired.txt --topic \udcff", None, "expected UTF-8"),
    ("desired.txt --colour", None, "unrecognized arguments: --colour"),
])  # fmt: skip
def test_invalid_arguments_end_with_2(words: str, source: str | None, error: str) -> None:
    assert error in plan(words, *(() if source is None else (source,)), code=2).err


def test_failing_policy_test_breaks_the_plan() -> None:
    """The plan is written nevertheless, and says what it would break."""
    out = plan("desired.txt --tests tests.yaml --out plan.json", code=3).out
    assert "\nFAIL  bob may WRITE topics beginning with payments.\n" in out
    assert out.count("      it also fails without this plan\n") == 1
    assert "\n3 policy tests after this plan: 1 passed, 2 failed, 1 of them because of it\n" in out
    assert out.endswith(
        "written to plan.json, but it would break something: acls apply refuses it without "
        "--accept-breaking\n"
    )
    (check,) = written().checks
    assert check.breaks
    assert check.counts == {"tests": 3, "failed_before": 1, "failed_after": 2}
    assert [each.partition(": found")[0] for each in check.broken] == [
        "tests.yaml:2: bob may WRITE topics beginning with payments.",
        "tests.yaml:3: zoe may READ topic orders",
    ]


def test_failed_test_proposes_to_change_the_desired_acls() -> None:
    """The next plan would undo a change by kafka-acls."""
    out = plan("desired.txt --tests tests.yaml", code=3).out
    assert "kafka-acls" not in out
    assert (
        '      change:   add to the desired ACLs: {"resource_type": "TOPIC", "resource_name": '
        '"payments.", "pattern_type": "PREFIXED", "principal": "User:bob", "host": "*", '
        '"operation": "WRITE", "permission_type": "ALLOW"}\n'
    ) in out


def test_misspelt_principal_is_noted() -> None:
    """Bob has an ACL, which the plan deletes. So only nosuch is probably a typo."""
    Path("tests.yaml").write_text(
        "tests:\n  - nosuch may not READ topic orders\n  - bob may not READ topic orders\n"
    )
    printed = plan("desired.txt --tests tests.yaml --out plan.json", code=10)
    note = "tests.yaml:2: nosuch may not READ topic orders: no ACL names User:nosuch"
    assert [line for line in printed.out.splitlines() if "note:" in line] == [f"note: {note}"]
    (check,) = written().checks
    assert check.notes == (note,)


def test_many_managed_entries_are_shortened() -> None:
    entries = [{"principal": f"User:u{number}"} for number in range(25)]
    Path("many.json").write_text(json.dumps({"manages": entries, "acls": []}))
    lines = plan("many.json --out plan.json").out.splitlines()
    start = lines.index("this plan manages only these ACLs:")
    assert lines[start + 20 : start + 22] == [
        "  principal=User:u19", "  and 5 more entries, which the plan lists",
    ]  # fmt: skip
    assert len(written().manages) == 25


def test_passing_policy_tests_are_counted() -> None:
    plan("desired.txt now.txt --tests tests.yaml", code=3)
    printed = plan("now.txt --tests tests.yaml", code=3)  # zoe may not, whatever is planned
    assert "2 passed, 1 failed, 0 of them because of it\n" in printed.out


def test_more_changes_than_a_request_can_make_need_batches() -> None:
    many = [acl(f"User:{number}", topic="orders") for number in range(10_001)]
    Path("many.txt").write_text(format_acls(many))
    Path("none.yaml").write_text("acls: []\n")
    printed = plan("none.yaml --out plan.json", "--acls many.txt", code=1)
    assert "10001 changes: expected at most 10000" in printed.err
    assert not Path("plan.json").exists()
    plan("none.yaml --out plan.json --batches", "--acls many.txt", code=10)
    assert len(written().changes.deleted) == 10_001


def test_log_has_an_offset_and_the_same_digest_as_its_listing() -> None:
    """A plan that was made from a log is for the same state as one from a listing."""
    write_log(Path("log"), [added(1, ALICE)])
    Path("listing.txt").write_text(format_acls([ALICE]))
    sources = []
    for source in ("--log-dir log", "--acls listing.txt"):
        plan("desired.txt --out plan.json", source, code=10)
        sources.append(written().made_for)
    assert [each.offset for each in sources] == [2, None]
    assert sources[0].digest == sources[1].digest


def test_unprintable_characters_are_escaped() -> None:
    Path("evil.txt").write_text(format_acls([EVIL]))
    printed = plan("evil.txt --out plan.json", code=10)
    assert all(line.isprintable() for line in printed.out.splitlines())
    assert all(line.isprintable() for line in Path("plan.json").read_text().splitlines())
    assert EVIL in written().changes.created


def test_surprises_of_added_acls_are_warnings() -> None:
    Path("odd.txt").write_text(format_acls([acl("User:a", topic="*x")]))
    printed = plan("odd.txt now.txt --out plan.json", code=10)
    (warning,) = written().warnings
    assert warning.startswith("name '*x': * is an ordinary character here")
    assert warning.endswith(f": {acl('User:a', topic='*x')}")
    assert f"\nwarning: {warning}\n" in printed.out


def test_caller_is_warned_before_it_loses_its_own_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """The authenticated name says who the caller is."""
    held = snapshot_of(acl("User:me", "ALTER", cluster=True), acl("User:you", "ALL", cluster=True))
    answer = BrokerAnswer(held, (), {"super.users": "User:root"}, user="me")
    monkeypatch.setattr("authorizerd.cli.broker_acls.read_brokers", lambda *_: answer)
    Path("none.yaml").write_text("acls: []")
    out = plan("none.yaml", "--bootstrap-server b:1 --command-config c", code=10).out
    assert out.index("warning: User:me (you) loses ALTER") < out.index("warning: User:you loses")


def test_existing_file_is_replaced_as_a_whole() -> None:
    """A reader that has opened the earlier plan goes on reading it."""
    plan("now.txt --out plan.json")
    text = Path("plan.json").read_text()
    with Path("plan.json").open() as earlier:
        plan("desired.txt --out plan.json", code=10)
        assert earlier.read() == text
    assert written().changes.count == 3


@pytest.mark.parametrize(("words", "kept", "error"), [
    ("desired.txt --out desired.txt", "desired.txt", "the file is also DESIRED, and was kept"),
    ("desired.txt --out link.txt", "desired.txt", "the file is also DESIRED, and was kept"),
    ("desired.txt --out now.txt", "now.txt", "the file is also --acls, and was kept"),
    ("desired.txt --tests tests.yaml --out tests.yaml", "tests.yaml",
     "the file is also --tests, and was kept"),
    ("desired.txt --traffic a.log b.log --out b.log", "b.log",
     "the file is also --traffic, and was kept"),
    ("desired.txt --traffic-report b.log --out b.log", "b.log",
     "the file is also --traffic-report, and was kept"),
    ("desired.txt --out tests.yaml", "tests.yaml", "is not a plan, and was kept: name another"),
    ("desired.txt --out b.log", "b.log", "is not a plan, and was kept: name another"),
])  # fmt: skip
def test_only_a_plan_is_replaced(words: str, kept: str, error: str) -> None:
    Path("link.txt").symlink_to("desired.txt")
    Path("a.log").write_text("")
    Path("b.log").write_text('{"format": "another"}')
    before = Path(kept).read_bytes()
    assert error in plan(words, code=1).err
    assert Path(kept).read_bytes() == before


def test_edited_plan_can_be_made_again() -> None:
    plan("desired.txt --out plan.json", code=10)
    text = Path("plan.json").read_text()
    Path("plan.json").write_text(text.replace("carol", "eve"))
    plan("desired.txt --out plan.json", code=10)
    assert Path("plan.json").read_text() == text


def test_properties_file_is_not_replaced() -> None:
    Path("server.properties").write_text("log.dirs=log\n")
    printed = plan("desired.txt --out server.properties", "--config server.properties", code=1)
    assert "the file is also --config, and was kept" in printed.err


def test_plan_is_not_a_file_of_desired_acls() -> None:
    plan("desired.txt --out plan.json", code=10)
    printed = plan("plan.json", code=1)
    assert "plan.json: expected desired ACLs, found a plan: apply it with" in printed.err


def test_grants_are_shown_and_kept() -> None:
    grant = Grant(
        id="1", acl=CAROL, begin_ms=0, end_ms=253402300740000, author="User:ops", reason="INC-1"
    )
    later = replace(grant, acl=BOB, begin_ms=253402300680000, is_waiting=True)
    notes = [make_grant_note(grant), make_grant_note(later)]
    Path("grants.json").write_text(write_json_document([ALICE, CAROL, *notes]).text)
    Path("alice.txt").write_text(format_acls([ALICE]))
    source = f"--acls grants.json {' '.join(KNOWN_SETTINGS)}"

    assert "nothing to do: 4 ACLs, as desired\n" in plan("grants.json", source).out
    kept = plan("alice.txt", source).out
    assert "nothing to do" in kept
    assert "warning: 2 grants are kept although no file has them" in kept
    Path("alice.txt").write_text(format_acls([ALICE, CAROL]))
    permanent = plan("alice.txt", source, code=10).out
    of_carol = "grant of READ on topic literal `orders` to User:carol"
    assert f"-   note: {of_carol} until 9999-12-31 23:59 UTC, by User:ops: INC-1\n" in permanent
    assert "0 ACLs to create (0 DENY, 0 ALLOW), 0 to delete" in permanent
    assert ", and notes: 0 to create, 1 to delete: 4 before, 3 after\n" in permanent
    made = plan("grants.json --out plan.json", code=10).out
    assert "+   ALLOW User:carol READ from any host\n" in made
    assert (
        "+   note: grant of WRITE on topic prefix `payments.` to User:bob from 9999-12-31 23:58 UTC"
        " until 9999-12-31 23:59 UTC, by User:ops: INC-1\n" in made
    )
    assert written().changes.create_allow == (CAROL, notes[0])
