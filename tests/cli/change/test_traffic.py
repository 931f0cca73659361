"""``authorizerd acls plan --traffic``: what it reports, writes and returns."""

import gzip
import json
import re
import sys
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl
from authorizerd.acl.text.named_acl import parse_acl
from authorizerd.management.formats.listing import format_acls
from authorizerd.management.plan.document import Plan, PlanCheck, decode_plan
from authorizerd.management.plan.traffic import TrafficCount, TrafficEvidence
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.local.traffic import LogEngine
from authorizerd.replay.plans import IngestPlan, WhatIfPlan
from authorizerd.replay.whatif import evaluation as whatif
from tests.ops.replay.acl_sets import acl_set_of
from tests.support.acls import KNOWN_SETTINGS, acl
from tests.support.printed import Printed, run_main
from tests.support.programs import run_program
from tests.support.recorded_use import RecordedUse, read_recorded_use

ALICE = acl("User:alice", "READ", topic="orders", host="10.0.0.7")
BOB = acl("User:bob", "WRITE", topic="payments.", pattern="PREFIXED")
BY_RANGE = acl("User:bob", "WRITE", topic="payments.", pattern="PREFIXED", host="10.0.0.0/8")
CAROL = acl("User:carol", "READ", topic="orders")
NOBODY = acl("User:*", "READ", topic="orders", deny=True)
LINE = (
    "[2026-11-21 16:26:{second:02d},500] DEBUG Principal = {principal} is {verdict} operation = "
    "{operation} from host = 10.0.0.7 on resource = Topic:LITERAL:{topic} for request = Fetch with "
    "resourceRefCount = 1 (kafka.authorizer.logger)\n"
)
FLAGS = f"--acls now.txt {' '.join(KNOWN_SETTINGS)}"
SUPER_USERS_UNKNOWN = "super.users is unknown, so super users are judged by the ACLs alone"
REPORT = """\
2 events of 2 requests, recorded from 2026-11-21T16:26:01.500Z to 2026-11-21T16:26:02.500Z in 2 \
lines; all judged
this proves nothing: the ACLs decide 1 of 2 events (50.0%) differently from the record; above \
5%, a record proves nothing: pass --super-users and --allow-everyone-if-no-acl-found \
as the brokers have them, and use a log that these brokers wrote under these ACLs
warning: the present ACLs decide 1 event differently from the record, most often User:carol READ \
topic `orders` from 10.0.0.7 (now denied, 1 event): the log was recorded under other ACLs, or \
under other settings than those of --super-users and --allow-everyone-if-no-acl-found
the plan newly denies 1 event of 1 request
used: the plan deletes 1 ACL that recorded requests rely on:
  delete ALLOW User:bob WRITE from any host on topic prefix `payments.`: 1 event of 1 request, \
last at 2026-11-21T16:26:02.500Z
newly denied, most frequent first:
  User:bob WRITE topic `payments.eu` from 10.0.0.7: 1 event, last at 2026-11-21T16:26:02.500Z
the plan newly allows 1 event of 1 request
used: the plan creates 1 ACL by which recorded requests are allowed:
  create ALLOW User:carol READ from any host on topic literal `orders`: 1 event of 1 request, last \
at 2026-11-21T16:26:01.500Z
newly allowed, most frequent first:
  User:carol READ topic `orders` from 10.0.0.7: 1 event, last at 2026-11-21T16:26:01.500Z
recorded traffic: 1 event of 1 request newly denied, 1 event of 1 request newly allowed; \
this proves nothing
"""
AS_HELD = 20
"""For one request that the ACLs contradict, as many that they decide as recorded."""


def line(
    principal: str, operation: str, topic: str, *, allowed: bool = True, second: int = 1
) -> str:
    return LINE.format(
        principal=principal, operation=operation, topic=topic,
        verdict="Allowed" if allowed else "Denied", second=second,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "now.txt").write_text(format_acls([ALICE, BOB]))
    (tmp_path / "desired.txt").write_text(format_acls([ALICE, CAROL]))
    (tmp_path / "audit.log").write_text(
        line("User:carol", "READ", "orders") + line("User:bob", "WRITE", "payments.eu", second=2)
    )
    return tmp_path


def plan(words: str, source: str = FLAGS, *, code: int = 0) -> Printed:
    return run_main("acls", "plan", *words.split(), *source.split(), code=code)


def written() -> Plan:
    return decode_plan(Path("plan.json").read_bytes())


def check_in() -> tuple[PlanCheck, TrafficEvidence]:
    (check,) = written().checks
    assert check.evidence is not None
    return check, check.evidence


def test_warning_of_drift_names_the_most_frequent_requests() -> None:
    """Without --super-users, the ACLs decide otherwise than the broker did."""
    Path("audit.log").write_text(
        "".join(line("User:admin", "WRITE", f"t{number}") * number for number in range(1, 6))
        + line("User:alice", "READ", "orders", allowed=False)
    )
    plan("now.txt --traffic audit.log --out plan.json", code=3)
    (warning,) = [text for text in check_in()[1].warnings if "differently" in text]
    assert warning.startswith(
        "the present ACLs decide 16 events differently from the record, most often"
    )
    assert re.findall(r"(\S+) from 10.0.0.7 \(now (\w+), (\d) events\)", warning) == [
        ("`t5`", "denied", "5"), ("`t4`", "denied", "4"), ("`t3`", "denied", "3"),
    ]  # fmt: skip
    settings = "--acls now.txt --super-users=User:admin"
    plan("now.txt --traffic audit.log --out plan.json", settings, code=3)
    assert "differently" in str(check_in()[1].warnings)
    assert "`orders` from 10.0.0.7 (now allowed, 1 event)" in str(check_in()[1].warnings)


def test_changes_are_shown_and_written() -> None:
    printed = plan("desired.txt --traffic audit.log --out plan.json", code=3).out
    assert REPORT in printed
    assert printed.endswith("acls apply refuses it without --accept-breaking\n")
    check, evidence = check_in()
    assert check.breaks
    assert written().breaks
    assert check.broken[:-1] == (
        "delete ALLOW User:bob WRITE from any host on topic prefix `payments.`: 1 event of 1 "
        "request, last at 2026-11-21T16:26:02.500Z",
    )
    assert check.counts == {
        "events": 2, "judged_events": 2, "newly_denied_events": 1, "newly_denied_requests": 1,
        "newly_allowed_events": 1, "newly_allowed_requests": 1,
    }  # fmt: skip
    assert [parse_acl(each.acl) for each in evidence.newly_denied.causes] == [BOB]
    assert [parse_acl(each.acl) for each in evidence.newly_allowed.causes] == [CAROL]
    assert evidence.not_reproduced == TrafficCount(events=1, tuples=1)
    (file,) = evidence.files
    assert (file.path, file.bytes) == ("audit.log", Path("audit.log").stat().st_size)


@pytest.mark.parametrize(("flag", "deleted", "causes"), [
    ("", [BY_RANGE], [BY_RANGE]),
    ("--kafka-release 4.4", [BY_RANGE], [BY_RANGE]),
    ("--kafka-release 4.3", [BY_RANGE], []),
    ("--kafka-release 4.3", [BY_RANGE, BOB], [BOB]),
])  # fmt: skip
def test_deleted_range_breaks_by_each_release_that_reads_it(
    flag: str, deleted: list[Acl], causes: list[Acl]
) -> None:
    Path("now.txt").write_text(format_acls([ALICE, *deleted]))
    Path("desired.txt").write_text(format_acls([ALICE]))
    as_held = line("User:alice", "READ", "orders") * AS_HELD
    Path("audit.log").write_text(as_held + line("User:bob", "WRITE", "payments.eu"))
    plan(f"desired.txt --traffic audit.log --out plan.json {flag}", code=3 if causes else 10)
    _, evidence = check_in()
    assert [parse_acl(each.acl) for each in evidence.newly_denied.causes] == causes


def test_harmless_plan_does_not_break() -> None:
    Path("audit.log").write_text(line("User:alice", "READ", "orders"))
    made = json.loads(plan("desired.txt --traffic audit.log --out plan.json --json", code=10).out)
    assert made["checks"][0]["evidence"]["newly_denied"]["events"] == 0
    check, evidence = check_in()
    assert not check.breaks
    assert check.summary == "recorded traffic: nothing newly denied, nothing newly allowed"
    assert evidence.warnings == ()


@pytest.mark.parametrize(("as_held", "code"), [(18, 3), (19, 10), (20, 10)])
def test_plan_breaks_if_the_acls_contradict_the_record(as_held: int, code: int) -> None:
    """Nothing is newly denied, but only because the record is of other names."""
    misread = line("User:alice", "READ", "orders (x)")
    text = line("User:alice", "READ", "orders") * as_held + misread
    Path("audit.log").write_text(text + line("User:*", "READ", "a") * 100)
    Path("desired.txt").write_text(format_acls([ALICE]))
    report(acl_set_of([ALICE, BOB]), acl_set_of([ALICE]))
    expected = "this proves nothing: the ACLs decide 1 of 19 events (5.3%) differently"
    contradictions = []
    for flag in ("--traffic audit.log", "--traffic-report whatif.json"):
        printed = plan(f"desired.txt {flag} --out plan.json", code=code)
        assert (expected in printed.out) is (code == 3)
        check, evidence = check_in()
        assert (evidence.contradiction is not None, check.breaks) == (code == 3, code == 3)
        assert evidence.not_reproduced == TrafficCount(events=1, tuples=1)
        contradictions.append(evidence.contradiction)
    assert contradictions[0] == contradictions[1]


@pytest.mark.parametrize(("topic", "allowed"), [("new", True), ("new", False)])
def test_contradiction_by_one_value_of_an_unknown_default_breaks(topic: str, allowed: bool) -> None:
    Path("audit.log").write_text(line("User:dave", "READ", topic, allowed=allowed))
    words = "now.txt --traffic audit.log --out plan.json"
    plan(words, "--acls now.txt --super-users=", code=3)
    assert any("(100.0%) differently" in each for each in check_in()[0].broken)
    known = f"--allow-everyone-if-no-acl-found={str(allowed).lower()}"
    plan(words, f"--acls now.txt --super-users= {known}", code=0 if allowed else 3)
    contradiction = check_in()[1].contradiction
    assert contradiction is None if allowed else "no allowed request" in str(contradiction)


def test_report_of_an_earlier_version_is_rejected() -> None:
    path = report(acl_set_of([ALICE, BOB]), acl_set_of([ALICE, CAROL]))
    content = json.loads(path.read_text())
    del content["as_recorded"], content["not_as_recorded"]
    path.write_text(json.dumps(content))
    printed = plan("desired.txt --traffic-report whatif.json", code=1)
    assert "does not say whether the present ACLs decide as recorded" in printed.err


def test_created_deny_is_named() -> None:
    Path("desired.txt").write_text(format_acls([ALICE, BOB, NOBODY]))
    Path("audit.log").write_text(line("User:alice", "READ", "orders"))
    plan("desired.txt --traffic audit.log --out plan.json", code=3)
    _, evidence = check_in()
    assert [(each.change, parse_acl(each.acl)) for each in evidence.newly_denied.causes] == [
        ("create", NOBODY)
    ]


def test_several_files_are_read_with_their_settings() -> None:
    logs = Path("logs")
    logs.mkdir()
    (logs / "a.gz").write_bytes(gzip.compress(line("User:alice", "READ", "orders").encode()))
    (logs / "b").write_text("another message\n\n")
    flags = "--traffic logs audit.log --traffic-tz Europe/Berlin --traffic-max-bad-ratio 0.2"
    plan(f"desired.txt --out plan.json {flags}", code=3)
    _, evidence = check_in()
    assert evidence.first_at == "2026-11-21T15:26:01.500Z"
    assert evidence.lines is not None
    assert (evidence.lines.all, evidence.lines.blank) == (5, 1)
    assert evidence.lines.reasons == {"no_decision": 1}
    assert [file.path for file in evidence.files] == ["logs/a.gz", "logs/b", "audit.log"]


def test_record_of_denials_proves_nothing() -> None:
    Path("audit.log").write_text(
        line("User:alice", "WRITE", "orders", allowed=False)
        + line("User:*", "READ", "a", allowed=False)
    )
    plan("desired.txt --traffic audit.log --out plan.json", code=3)
    check, evidence = check_in()
    assert check.breaks
    assert str(evidence.contradiction).startswith("the record contains no allowed request")
    assert list(evidence.warnings) == ["1 event cannot be judged: principal User:* 1"]


@pytest.mark.parametrize("flag", ["--traffic audit.log", "--traffic-report whatif.json"])
@pytest.mark.parametrize(("words", "reason"), [
    ("", None),
    ("--traffic-min-allowed 1 --traffic-newest-within 9999d", None),
    ("--traffic-min-allowed 2", "1 allowed event, and --traffic-min-allowed 2"),
    ("--traffic-newest-within 1s", "the newest event is of 2026-11-21T16:26:01.500Z, and --traffi"),
])  # fmt: skip
def test_record_can_be_too_small_or_too_old(flag: str, words: str, reason: str | None) -> None:
    Path("audit.log").write_text(line("User:alice", "READ", "orders"))
    report(acl_set_of([ALICE, BOB]), acl_set_of([ALICE, CAROL]))
    plan(f"desired.txt {flag} {words} --out plan.json", code=10 if reason is None else 3)
    _, evidence = check_in()
    assert str(evidence.contradiction).startswith(str(reason))


def test_requests_of_super_users_prove_nothing() -> None:
    Path("audit.log").write_text(line("User:root", "READ", "orders"))
    settings = "--acls now.txt --super-users User:root --allow-everyone-if-no-acl-found false"
    plan("desired.txt --traffic audit.log --out plan.json", settings, code=3)
    assert check_in()[1].contradiction == (
        "all allowed requests are of super users, or cannot be judged"
    )


def wrap(line: str, wrappers: int) -> str:
    for _ in range(wrappers):
        line = json.dumps({"log": line, "stream": "stdout"}) + "\n"
    return line


def test_line_in_a_named_field_is_evidence() -> None:
    text = line("User:alice", "WRITE", "orders").rstrip()
    Path("audit.log").write_text(json.dumps({"event": {"original": text}}) + "\n")
    flags = "--traffic audit.log --traffic-line-field event.original"
    plan(f"desired.txt {flags} --out plan.json", code=3)


ALLOWED = line("User:alice", "READ", "orders")
EVENT = {
    "version": 1, "time": "2026-11-21T16:26:26.966Z", "principal": "User:alice",
    "allowed": True, "operation": "READ", "resource_type": "TOPIC", "resource_name": "orders",
    "host": "10.0.0.7",
}  # fmt: skip


@pytest.mark.parametrize(("text", "is_sampled"), [
    (ALLOWED, False),
    (ALLOWED.replace("\n", " [sampleRate=0.1]\n"), True),
    (ALLOWED.replace("\n", " [sampleRate=1e-05]\n"), True),
    (ALLOWED.replace("\n", " [t-1]\n"), False),
    *((json.dumps(EVENT | {"sample_rate": rate}, separators=(",", ":")) + "\n", rate < 1)
      for rate in (1.0, 0.5, 1e-05)),
])  # fmt: skip
@pytest.mark.parametrize("wrappers", [0, 1, 2])
def test_sample_of_a_log_is_a_warning(text: str, is_sampled: bool, wrappers: int) -> None:
    Path("audit.log").write_text(wrap(text, wrappers))
    plan("desired.txt --traffic audit.log --out plan.json", code=10)
    _, evidence = check_in()
    assert any("is a sample" in warning for warning in evidence.warnings) is is_sampled


@pytest.mark.parametrize(("flags", "text", "message"), [
    ("", "no audit line\n" * 2,
     "audit.log: no line belongs to an audit log (no_decision 2): name a log of Kafka's "),
    ("", "\n", "there is no recorded request, so nothing can be judged"),
    ("", line("User:alice", "READ", "orders") + "no audit line\n",
     "1 of 2 lines cannot be read (no_decision 1): filter the log, or raise "),
    ("--traffic-line-field msg --traffic-max-bad-ratio 1", line("User:alice", "READ", "orders"),
     "audit.log: no line has a text in the JSON field that --traffic-line-field names (no_"),
    ("--traffic-tz Nowhere", "", "unknown time zone 'Nowhere'"),
])  # fmt: skip
def test_traffic_that_proves_nothing_is_rejected(flags: str, text: str, message: str) -> None:
    Path("audit.log").write_text(text)
    printed = plan(f"desired.txt --traffic audit.log --out plan.json {flags}", code=1)
    assert f"authorizerd: --traffic: {message}" in printed.err
    assert not Path("plan.json").exists()


def test_damaged_archive_is_rejected() -> None:
    packed = gzip.compress(line("User:alice", "READ", "orders").encode() * 100)
    Path("a.gz").write_bytes(packed[:-4])
    printed = plan("desired.txt --traffic a.gz --traffic-max-bad-ratio 1", code=1)
    assert "--traffic: a.gz: the archive is damaged, so recorded" in printed.err


@pytest.mark.parametrize(("flags", "message"), [
    ("--traffic audit.log --traffic-report r", "expected either --traffic or --traffic-report"),
    ("--traffic audit.log --traffic-max-bad-ratio 2", "expected a number from 0 to 1, found '2'"),
])  # fmt: skip
def test_invalid_flags_are_rejected(flags: str, message: str) -> None:
    assert message in plan(f"desired.txt {flags}", code=2).err


def report(before: AclSet, after: AclSet, since_ms: int | None = None) -> Path:
    """Write what the Spark job would: ``whatif.json`` of the log."""
    logs = IngestPlan(inputs=("audit.log",), out="")
    plan = WhatIfPlan(events="", out=".", candidate=after, baseline=before, since_ms=since_ms)
    whatif.run(plan, LogEngine(logs, plan.out))
    return Path("whatif.json")


def test_report_of_spark_gives_the_same_changes() -> None:
    report(acl_set_of([ALICE, BOB]), acl_set_of([CAROL, ALICE]))
    plan("desired.txt --traffic audit.log --out plan.json", code=3)
    _, here = check_in()
    plan("desired.txt --traffic-report whatif.json --out plan.json", code=3)
    _, there = check_in()
    assert there.engine == "spark"
    for evidence in (here, there):
        assert evidence.newly_denied.tuples == evidence.newly_allowed.tuples == 1
    assert (there.newly_denied, there.newly_allowed) == (here.newly_denied, here.newly_allowed)
    assert (there.first_at, there.judged_events) == (here.first_at, 2)
    since_ms = 1_795_278_362_000  # between the two lines
    report(acl_set_of([ALICE, BOB]), acl_set_of([CAROL, ALICE]), since_ms)
    plan("desired.txt --traffic-report whatif.json --out plan.json", code=3)
    _, within = check_in()
    assert (within.events, within.newly_denied, within.newly_allowed.events) == (
        1, here.newly_denied, 0
    )  # fmt: skip
    assert "only requests since 2026-11-21T16:26:02.000Z were judged" in within.warnings


@pytest.mark.parametrize(("before", "after", "message"), [
    (acl_set_of([ALICE]), acl_set_of([ALICE, CAROL]), "its baseline has other ACLs than the"),
    (acl_set_of([ALICE, BOB]), acl_set_of([CAROL]), "its candidate has other ACLs than the"),
    (acl_set_of([ALICE, BOB], allow_everyone=True), acl_set_of([ALICE, CAROL]),
     "its baseline has other settings than the present ACLs: run authorizerd replay whatif"),
])  # fmt: skip
def test_report_about_other_acls_is_rejected(before: AclSet, after: AclSet, message: str) -> None:
    report(before, after)
    printed = plan("desired.txt --traffic-report whatif.json", code=1)
    assert f"--traffic-report: whatif.json: {message}" in printed.err


def test_report_does_not_show_what_an_unknown_default_allows() -> None:
    before, after = (
        acl_set_of(some, super_users=None, allow_everyone=None)
        for some in ([ALICE, BOB], [ALICE, CAROL])
    )
    report(before, after)
    printed = plan("desired.txt --traffic-report whatif.json", "--acls now.txt", code=1)
    said = "whatif.json: allow.everyone.if.no.acl.found is unknown: pass --allow-everyone"
    assert said in printed.err
    flags = "--acls now.txt --allow-everyone-if-no-acl-found=false"
    printed = plan("desired.txt --traffic-report whatif.json", flags, code=1)
    assert "its baseline has other settings than" in printed.err


def test_report_of_unknown_super_users_is_accepted_with_a_warning() -> None:
    before, after = (acl_set_of(some, super_users=None) for some in ([ALICE, BOB], [ALICE, CAROL]))
    report(before, after)
    flags = "--acls now.txt --allow-everyone-if-no-acl-found=false"
    plan("desired.txt --traffic-report whatif.json --out plan.json", flags, code=3)
    assert SUPER_USERS_UNKNOWN in check_in()[1].warnings


def test_unknown_default_is_tried_both_ways() -> None:
    """If everyone may use a topic without ACLs, its first ACL denies recorded requests."""
    first = acl("User:carol", "READ", topic="new")
    Path("desired.txt").write_text(format_acls([ALICE, BOB, first]))
    as_held = line("User:alice", "READ", "orders") * AS_HELD
    Path("audit.log").write_text(as_held + line("User:dave", "READ", "new"))
    words = "desired.txt --traffic audit.log --out plan.json"
    plan(words, code=10)
    plan(words, "--acls now.txt --super-users= --allow-everyone-if-no-acl-found", code=3)
    printed = plan(words, "--acls now.txt", code=3).out
    if_open = "if allow.everyone.if.no.acl.found is true, which is unknown: "
    check, evidence = check_in()
    assert check.summary == (
        "recorded traffic: nothing newly denied, nothing newly allowed; "
        f"{if_open}1 event of 1 request newly denied, nothing newly allowed"
    )
    (broken,) = check.broken
    assert broken.startswith(f"{if_open}create ALLOW User:carol READ from any host on topic")
    assert SUPER_USERS_UNKNOWN in evidence.warnings
    assert "taken to be false" not in "".join(evidence.warnings)
    assert f"{if_open}\n" in printed.replace(":\n", ": \n")
    assert "\nthe plan newly denies 1 event of 1 request\n" in printed


def test_report_against_recorded_decisions_is_rejected() -> None:
    path = report(acl_set_of([ALICE, BOB]), acl_set_of([ALICE, CAROL]))
    content = json.loads(path.read_text()) | {"baseline": None}
    path.write_text(json.dumps(content))
    printed = plan("desired.txt --traffic-report whatif.json", code=1)
    assert "it compares with the recorded decisions" in printed.err
    path.write_text("{}")
    printed = plan("desired.txt --traffic-report whatif.json", code=1)
    assert "expected the whatif.json of replay whatif" in printed.err


@pytest.fixture(scope="module")
def use(real_log_dir: Path) -> RecordedUse:
    return read_recorded_use(real_log_dir)


def plan_real(log_dir: Path, kept: list[Acl], code: int) -> None:
    Path("desired.txt").write_text(format_acls(kept))
    log = log_dir / "kafka-authorizer.log.xz"
    flags = f"--log-dir {log_dir} --super-users User:admin --traffic {log}"
    plan("desired.txt --out plan.json", flags, code=code)


def test_unused_grants_of_a_real_log_can_go(real_log_dir: Path, use: RecordedUse) -> None:
    unused = set(use.unused)
    kept = [each.acl for each in use.acls.acls if each.acl not in unused]
    plan_real(real_log_dir, kept, code=10)
    check, evidence = check_in()
    assert len(written().changes.deleted) == 1456
    assert check.counts["judged_events"] == evidence.events == 13_518
    assert (evidence.newly_denied.events, evidence.newly_allowed.events) == (0, 0)


def test_used_grants_of_a_real_log_are_named(real_log_dir: Path, use: RecordedUse) -> None:
    ten = set(use.alone[::4][:10])
    gone = ten | set(use.unused)
    kept = [each.acl for each in use.acls.acls if each.acl not in gone]
    plan_real(real_log_dir, kept, code=3)
    check, evidence = check_in()
    assert len(ten) == len(check.broken) == 10
    assert {parse_acl(each.acl) for each in evidence.newly_denied.causes} == ten
    assert {each.change for each in evidence.newly_denied.causes} == {"delete"}


def test_pyspark_and_pyarrow_are_not_needed(folder: Path) -> None:
    blocked = (
        "import sys; sys.modules.update(dict.fromkeys(('pyarrow', 'pyspark', 'py4j', 'jinja2')))\n"
        "from authorizerd.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    words = f"acls plan desired.txt --traffic audit.log {FLAGS}".split()
    done = run_program(sys.executable, "-c", blocked, *words, cwd=folder)
    assert (done.returncode, done.stderr) == (3, "")
