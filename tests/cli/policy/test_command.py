"""``authorizerd test``: what it prints, its exit codes, and the ACLs that it tests."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from authorizerd.management.formats.catalogue import FORMATS
from authorizerd.management.formats.listing import format_acls
from authorizerd.management.formats.unread import LIST_STEP
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from tests.support.acls import KNOWN_SETTINGS, acl
from tests.support.log_files import added, write_log
from tests.support.printed import Printed, run_main

ALICE = acl("User:alice", "READ", topic="orders", host="10.0.0.7")
BOB = acl("User:bob", "WRITE", topic="payments.", pattern="PREFIXED")
EVIL = acl("User:\x1b[31mevil\u202e", "WRITE", topic="orders")
POLICY = """\
tests:
  - alice may READ topic orders from 10.0.0.7
  - name: bob writes nothing
    assert: bob may not WRITE any topic
  - at most 1 principals but carol can WRITE payments.*
"""
FAILING = """\
ok    alice may READ topic orders from 10.0.0.7
FAIL  bob writes nothing
      expected: User:bob may not WRITE any topic
      found:    User:bob may WRITE topics payments.*, such as payments.a, from any host
      because:  StandardAcl[resourceType=TOPIC, resourceName=payments., patternType=PREFIXED, \
principal=User:bob, host=*, operation=WRITE, permissionType=ALLOW]
      change:   kafka-acls --bootstrap-server HOST:PORT --remove --force --allow-principal \
User:bob --allow-host '*' --operation Write --topic payments. --resource-pattern-type prefixed
      at policy.yaml:3
ok    at most 1 principals but carol can WRITE payments.*
3 tests: 2 passed, 1 failed
as listed by acls.txt, with 2 ACLs
with super.users= (--super-users), allow.everyone.if.no.acl.found=false \
(--allow-everyone-if-no-acl-found)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "acls.txt").write_text(format_acls([ALICE, BOB]))
    (tmp_path / "bob.txt").write_text(format_acls([BOB]))
    return tmp_path


def run(words: str, *, code: int = 0) -> Printed:
    return run_main("test", *KNOWN_SETTINGS, *words.split(), code=code)


def test_report_shows_the_difference_of_each_failed_test() -> None:
    assert run("policy.yaml --acls acls.txt", code=3).out == FAILING


def test_planned_change_is_tested() -> None:
    out = run("policy.yaml --acls acls.txt --without bob.txt").out
    assert "3 tests: 3 passed, 0 failed\n" in out
    assert "after a planned change: 1 removed, 0 added\n" in out


def test_added_acl_that_is_present_changes_nothing() -> None:
    run("policy.yaml --acls acls.txt --with bob.txt --with bob.txt", code=3)
    run("policy.yaml --acls acls.txt --without bob.txt --with bob.txt", code=3)


@pytest.mark.parametrize("name", ["new.yaml", "new.json"])
def test_planned_change_can_be_a_document(name: str) -> None:
    entry = {
        "principal": "User:mallory", "operation": "WRITE", "permission_type": "ALLOW",
        "resource_type": "TOPIC", "resource_name": "payments.x",
    }  # fmt: skip
    Path(name).write_text(json.dumps({"acls": [entry, entry | {"principal": "User:eve"}]}))
    run(f"policy.yaml --acls acls.txt --without bob.txt --with {name}", code=3)


def test_acls_may_be_in_the_files_of_another_tool() -> None:
    """What such a file says besides ACLs is a warning."""
    topic = {"name": "payments.x", "producers": [{"principal": "User:bob"}]}
    roles = [{"ResourceOwner": [{"principal": "User:bob"}]}]
    topology = {
        "context": "c", "projects": [{"name": "p", "rbac": roles}], "special_topics": [topic],
    }  # fmt: skip
    Path("topology.yaml").write_text(json.dumps(topology))
    Path("state.yaml").write_text(FORMATS["kafka-gitops"].write([ALICE]).text)
    printed = run("policy.yaml --acls state.yaml --with topology.yaml", code=3)
    assert "found:    User:bob may WRITE topic payments.x from any host\n" in printed.out
    assert "after a planned change: 0 removed, 2 added\n" in printed.out
    assert printed.err == (
        "authorizerd: warning: topology.yaml: projects[0].rbac: RBAC has no ACLs in Kafka\n"
    )


def test_principal_that_no_acl_names_is_noted() -> None:
    """That a misspelt principal may not do something proves little."""
    Path("more.yaml").write_text(
        "tests: [alcie may not READ any topic, root may READ any topic, bob may not READ any topic]"
    )
    assert run("more.yaml --acls acls.txt --super-users User:root").out.splitlines()[:5] == [
        "ok    alcie may not READ any topic", "      note:     no ACL names User:alcie",
        "ok    root may READ any topic", "ok    bob may not READ any topic",
        "3 tests: 3 passed, 0 failed",
    ]  # fmt: skip


def test_log_is_tested() -> None:
    write_log(Path("log"), [added(1)])
    assert (Path("log") / METADATA_TOPIC_DIRECTORY).is_dir()
    for source in ("--log-dir log", "--acls log"):
        assert "\nat log offset 2, with 1 ACL\n" in run(f"policy.yaml {source} -k bob").out


def test_tests_are_listed_without_acls() -> None:
    assert run("policy.yaml --list").out.splitlines()[1] == (
        "policy.yaml:3: bob writes nothing (User:bob may not WRITE any topic)"
    )


def test_selected_tests_run() -> None:
    assert "2 tests: 2 passed" in run("policy.yaml --acls acls.txt -k READ -k payments").out


@pytest.mark.parametrize(("words", "said"), [
    ("-k xyz", "-k: expected a part of a test's name, found xyz"),
    ("--without new.txt", "--without: expected ACLs that are present, found StandardAcl["),
    ("--junit no/out.xml", "--junit: no/out.xml: No such file or directory"),
])  # fmt: skip
def test_option_that_cannot_be_used_is_an_error(words: str, said: str) -> None:
    Path("new.txt").write_text(format_acls([acl("User:other")]))
    assert said in run(f"policy.yaml --acls acls.txt {words}", code=1).err


def test_faults_of_all_files_are_reported_and_no_test_runs() -> None:
    Path("a.yaml").write_text("tests: [alice my READ t, b may RAED t]")
    captured = run("a.yaml policy.yaml missing.yaml --acls acls.txt", code=1)
    assert captured.out == ""
    faults = [line for line in captured.err.splitlines() if not line.startswith("    ")]
    assert [fault.split(": ")[0] for fault in faults] == [
        "a.yaml:1:15", "a.yaml:1:32", "missing.yaml:1:1", "authorizerd",
    ]  # fmt: skip
    assert faults[-1] == "authorizerd: 3 faults in policy files; no test was run"


@pytest.mark.parametrize(("content", "reason"), [
    (b"ACLs\n",
     "acls.txt: line 1: expected a line of a listing of ACLs, found 'ACLs'; "
     f"expected one of the formats {', '.join(FORMATS)}; or {LIST_STEP}"),
    (b"\xff", "acls.txt: byte 0: not valid UTF-8"),
    (None, "acls.txt: No such file or directory"),
])  # fmt: skip
def test_unreadable_acls_are_an_error(content: bytes | None, reason: str) -> None:
    path = Path("acls.txt")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert run("policy.yaml --acls acls.txt", code=1).err == f"authorizerd: {reason}\n"


@pytest.mark.parametrize(("words", "reason"), [
    ("policy.yaml", "expected --log-dir DIR, --acls FILE, --config FILE"),
    ("policy.yaml --acls a --log-dir b", "expected either --acls or --log-dir, found both"),
    ("policy.yaml --acls a --bootstrap-server b:1", "expected either --acls or --bootstrap"),
    ("--acls a", "required: FILE"),
])  # fmt: skip
def test_invalid_arguments_end_with_2(words: str, reason: str) -> None:
    assert reason in run(words, code=2).err


def test_json_has_the_same_results() -> None:
    report = json.loads(run("policy.yaml --acls acls.txt --json", code=3).out)
    assert (report["passed"], report["failed"]) == (2, 1)
    assert [test["passed"] for test in report["tests"]] == [True, False, True]
    failed = report["tests"][1]
    assert (failed["file"], failed["line"], failed["name"]) == (
        "policy.yaml", 3, "bob writes nothing",
    )  # fmt: skip
    (finding,) = failed["findings"]
    assert finding["acl"] == {
        "resource_type": "TOPIC", "resource_name": "payments.", "pattern_type": "PREFIXED",
        "principal": "User:bob", "host": "*", "operation": "WRITE", "permission_type": "ALLOW",
    }  # fmt: skip
    assert (finding["allowed"], finding["principal"], finding["host"]) == (True, "User:bob", None)
    assert (finding["resource_name"], finding["pattern_type"]) == ("payments.", "PREFIXED")
    (change,) = failed["changes"]
    assert (change["change"], change["acl"]) == ("remove", finding["acl"])
    assert (report["source"]["name"], report["source"]["acls"]) == ("acls.txt", 2)
    assert report["plan"] is None


def test_denial_shows_what_almost_allows_it() -> None:
    Path("more.yaml").write_text("tests: [alice may READ topic orders]")
    lines = run("more.yaml --acls acls.txt", code=3).out.splitlines()
    assert lines[2:5] == [
        "      found:    User:alice may READ topic orders only from 10.0.0.7",
        "      because:  no ACL allows it",
        "      near:     If the host were known to be 10.0.0.7, User:alice would be allowed "
        "READ on topic `orders`.",
    ]
    assert lines[5].startswith("      change:   kafka-acls --bootstrap-server HOST:PORT --add ")
    printed = run("more.yaml --acls acls.txt --with bob.txt --json", code=3)
    assert json.loads(printed.out)["plan"] == {"removed": 0, "added": 1, "acls": 2}


SCHEMA = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {
        "name", "tests", "failures", "errors", "time", "skipped", "timestamp", "hostname", "id",
    },
    "testcase": {"name", "classname", "time", "file", "line"},
    "failure": {"message", "type"},
}  # fmt: skip
"""The elements of Jenkins' schema of JUnit files, and the attributes that it allows, of those that
the report has."""
CHILDREN = {"testsuites": "testsuite", "testsuite": "testcase", "testcase": "failure"}


def test_junit_file_has_the_form_that_ci_systems_read() -> None:
    """Control characters of names would make the XML malformed."""
    Path("more.yaml").write_text("tests: [nobody may WRITE topic orders]")
    Path("evil.txt").write_text(format_acls([EVIL]))
    run("policy.yaml more.yaml --acls acls.txt --with evil.txt --junit out.xml", code=3)
    root = ElementTree.fromstring(Path("out.xml").read_bytes())
    assert root.tag == "testsuites"
    for element in root.iter():
        assert set(element.attrib) == SCHEMA[element.tag]
        assert {child.tag for child in element} <= {CHILDREN.get(element.tag)}
    assert [(each.get("tests"), each.get("failures")) for each in root] == [("3", "1"), ("1", "1")]
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "2", "0")
    failures = list(root.iter("failure"))
    assert "because:" in (failures[0].text or "")
    assert r"User:\x1b[31mevil\u202e may WRITE topic orders" in (failures[1].text or "")
    assert [case.get("name") for case in root.iter("testcase")][1] == "bob writes nothing"


def test_names_are_printed_without_control_characters() -> None:
    Path("evil.txt").write_text(format_acls([EVIL]))
    Path("more.yaml").write_text(
        'tests: [{name: "a\\e[1mb", assert: nobody may WRITE topic orders}]'
    )
    out = run("more.yaml --acls evil.txt", code=3).out
    assert r"FAIL  a\x1b[1mb" in out
    assert r"User:\x1b[31mevil\u202e may WRITE topic orders" in out
    assert out.replace("\n", "").isprintable()
