"""``authorizerd review``: what a page and a sheet say, and what the record does not show."""

import csv
import json
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.model import Acl, AclRemoved
from authorizerd.acl.notes import name_note
from authorizerd.acl.snapshot import apply_changes
from authorizerd.cli.offline import read_snapshot
from authorizerd.management.formats.listing import format_acls
from authorizerd.management.plan.document import decode_plan
from authorizerd.management.plan.state import digest_acls
from authorizerd.management.review.sheet import name_cells, read_sheet
from authorizerd.protocol.records.batch import ControlType
from authorizerd.protocol.records.metadata import MetadataRecord
from authorizerd.replay.local.evidence import judge_traffic
from authorizerd.replay.local.traffic import read_traffic
from authorizerd.replay.plans import IngestPlan
from authorizerd.replay.text import format_time
from tests.ops.replay.report.elements import Elements
from tests.support.acls import KNOWN_SETTINGS, acl
from tests.support.log_files import (
    METADATA_VERSION,
    added,
    control_batch,
    data_batch,
    write_log,
    write_segment,
)
from tests.support.printed import Printed, run_main

DAY_MS = 86_400_000
START_MS = 1_792_000_000_000
USED = acl("User:a", "READ", topic="orders-1")
TWICE = acl("User:*", "READ", topic="orders-2")
DENIES = acl("User:a", "READ", topic="orders-3", deny=True)
IDLE = acl("User:b", "READ", topic="orders-1")
NEW = acl("User:c", "READ", topic="orders-1")
FOREIGN = acl("User:d", "READ", topic="payments")
HOSTILE = acl("User:<script>alert(1)</script>\u202e", "READ", topic="other")
OLD = (USED, TWICE, acl("User:a", "READ", topic="orders-2"), DENIES, IDLE, FOREIGN, HOSTILE)
TEAM = """\
owners:
  orders: [{resource_type: TOPIC, resource_name_prefix: orders-}]
  everyone: [{principal: "User:*"}]
  nobody: [{principal: "User:nobody"}]
"""
LINE = (
    "[{}] DEBUG Principal = {} is {} operation = READ from host = 10.0.0.1 on resource = "
    "Topic:LITERAL:{} for request = Fetch with resourceRefCount = 1 based on rule x "
    "(kafka.authorizer.logger)\n"
)


def line(day: float, topic: str = "orders-1", answer: str = "Allowed", who: str = "User:a") -> str:
    time = format_time(START_MS + int(day * DAY_MS)).replace("T", " ").replace(".", ",")
    return LINE.format(time.removesuffix("Z"), who, answer, topic)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    old: list[MetadataRecord | bytes] = [added(number, each) for number, each in enumerate(OLD)]
    batches: list[tuple[int, list[MetadataRecord | bytes]]] = [
        (0, [METADATA_VERSION]), (0, old), (50, [added(99, NEW)]),
    ]  # fmt: skip
    pieces, offset = [control_batch(0, ControlType.LEADER_CHANGE)], 1
    for day, records in batches:
        pieces.append(data_batch(offset, records, time_ms=START_MS + day * DAY_MS))
        offset += len(records)
    write_segment(tmp_path / "log", 0, *pieces)
    (tmp_path / "team.yaml").write_text(TEAM)
    asked_before_it_was_added = line(20, who="User:c")
    others = line(20, "orders-2"), line(30, "orders-3", "Denied")
    write_record(line(10), asked_before_it_was_added, *others, line(99.9))
    return tmp_path


def write_record(*lines: str) -> None:
    Path("audit.log").write_text("".join(lines))


def review(
    words: str = "--since 90d --logs audit.log", source: str = "--log-dir log", *, code: int = 0,
    out: str = "out",
) -> Printed:  # fmt: skip
    given = (*words.split(), *source.split(), "--owner", "team.yaml", "--out", out)
    return run_main("review", *given, *KNOWN_SETTINGS, code=code)


def split(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def rows(name: str = "orders", out: str = "out") -> dict[tuple[str, ...], dict[str, str]]:
    """Return the rows of a sheet by their ACLs."""
    path = Path(out, f"{name}.csv")
    heading, *cells = split(path)
    found = [dict(zip(heading, each, strict=True)) for each in cells]
    return dict(zip((row.acl for row in read_sheet(path.read_bytes()).rows), found, strict=True))


def use_of(each: Acl) -> tuple[str, str]:
    row = rows()[name_cells(each)]
    return row["use"], row["use_reason"]


def test_use_is_judged_if_the_record_covers_the_window() -> None:
    review()
    assert [use_of(each) for each in (USED, TWICE, DENIES, IDLE, NEW)] == [
        ("used", ""), ("used", ""), ("used", ""), ("unused", ""),
        ("not known", "it is younger than the window"),
    ]  # fmt: skip
    found = rows()
    figures = ("requests", "last_used_at", "newly_denied", "added_at")
    used, twice, denies = (found[name_cells(each)] for each in (USED, TWICE, DENIES))
    since = format_time(START_MS)
    assert [used[name] for name in figures] == [
        "2", format_time(START_MS + int(99.9 * DAY_MS)), "2", since,
    ]  # fmt: skip
    assert used["if_removed"] == "denies 2 recorded requests"
    assert (twice["newly_denied"], twice["also_owned_by"]) == ("0", "everyone")
    assert twice["risks"] == "User:* is everyone who can connect"
    assert denies["newly_denied"] == "0"
    assert denies["if_removed"] == "leaves 1 recorded denial to the other ACLs"


@pytest.mark.parametrize(("record", "words", "reason", "said"), [
    ([line(50), line(100)], "--since 90d", "the record does not cover the window",
     f"The record has no allowed request from {format_time(START_MS + 10 * DAY_MS)} to "
     f"{format_time(START_MS + 50 * DAY_MS)}."),
    ([line(-20), line(1), line(20, "orders-3", "Denied")], "--since 60d",
     "the record does not cover the window",
     f"The record has no allowed request from {format_time(START_MS + DAY_MS)} to "),
    ([line(10), line(100).replace("\n", " [sampleRate=0.1]\n")], "--since 90d",
     "the record does not cover the window", "Events may be missing: the record is a sample of"),
    ([line(9), line(20)], "--since 10d", "", "no allowed request was recorded since"),
    ([line(100, "orders-3", "Denied")], "--since 90d", "",
     "all 1 recorded events are denials, so no ACL can be called unused."),
    ([line(1), line(80, "orders-3", "Denied"), line(100, "orders-3", "Denied")], "--since 30d", "",
     "no allowed request was recorded since"),
    ([line(10, "x"), line(100, "x")], "--since 90d", "", "no ACL can be called unused: "),
    ([], "--since 90d", "", "there are no events, so no ACL can be judged"),
])  # fmt: skip
def test_missing_evidence_is_named_and_nothing_is_called_unused(
    record: list[str], words: str, reason: str, said: str
) -> None:
    write_record(*record)
    review(f"{words} --logs audit.log")
    assert use_of(IDLE) == ("not known", reason)
    assert {row["use"] for row in rows().values()} <= {"used", "not known"}
    assert said in Elements(Path("out/orders.html").read_text()).text


def test_without_a_record_no_use_is_known() -> None:
    review("")
    assert use_of(USED) == ("not known", "")
    assert rows()[name_cells(USED)]["if_removed"] == "not known"
    assert "no recorded traffic was given: pass --logs or --events" in read("orders")


def test_age_of_listed_acls_is_not_known_unless_it_is_assumed() -> None:
    Path("acls.txt").write_text(format_acls([*OLD, NEW]))
    words = "--logs audit.log"
    review(words, "--acls acls.txt")
    assert use_of(IDLE) == ("not known", "its age is not known")
    assert rows()[name_cells(USED)]["added_at"] == "not known"
    review(f"{words} --assume-in-force", "--acls acls.txt", out="out2")
    assert rows(out="out2")[name_cells(IDLE)]["use"] == "unused"


def test_grants_have_ends_and_notes_are_left_out() -> None:
    grant = Grant(
        id="g", acl=USED, begin_ms=START_MS, end_ms=START_MS + DAY_MS, author="User:root",
        reason="INC-1",
    )  # fmt: skip
    late_ms = START_MS + 9 * DAY_MS
    notes = [
        grant,
        replace(grant, id="later", end_ms=START_MS + 2 * DAY_MS, reason="INC-2", acl_id=bytes(16)),
        replace(grant, id="waiting", end_ms=late_ms, is_waiting=True),
        replace(grant, id="other", end_ms=late_ms, acl_id=b"x" * 16),
    ]
    records: list[MetadataRecord | bytes] = [
        added(number, each) for number, each in enumerate([USED, *map(make_grant_note, notes)])
    ]
    write_log(Path("granted"), records)
    review("", "--log-dir granted")
    row = rows()[name_cells(USED)]
    assert row["ends"] == format_time(START_MS + 2 * DAY_MS)
    assert row["added_by"] == "grant of User:root: INC-2"
    assert not rows("no-owner")
    # A plan takes the notes with their ACL, and never without it: that would make it permanent.
    words = ("--log-dir", "granted", "--out", "plan.json", *KNOWN_SETTINGS)
    assert "nothing to do" in run_main("acls", "plan", "--review", "out/orders.csv", *words).out
    heading, *lines = Path("out/orders.csv").read_text("utf-8-sig").splitlines()
    Path("orders.csv").write_text("\n".join([heading, *("remove" + line for line in lines)]))
    run_main("acls", "plan", "--review", "orders.csv", *words, code=10)
    made = decode_plan(Path("plan.json").read_bytes())
    assert set(made.changes.deleted) == {USED, *map(make_grant_note, notes)}


def test_grants_that_wait_and_unreadable_notes_are_named() -> None:
    """Neither has a row, and both will change who may do what."""
    grant = Grant(
        id="g", acl=IDLE, begin_ms=START_MS + DAY_MS, end_ms=START_MS + 2 * DAY_MS,
        author="User:root", reason="INC-\u202e1", is_waiting=True,
    )  # fmt: skip
    notes = [make_grant_note(grant), name_note("authorizerd-grant?id=1")]
    records: list[MetadataRecord | bytes] = [
        added(number, each) for number, each in enumerate([USED, *notes])
    ]
    write_log(Path("granted"), records)
    printed = review("", "--log-dir granted").out
    assert printed.count("1 grant that will create ACLs later") == 1
    assert printed.count("1 note that cannot be read, so more ACLs may end") == 4
    page = Path("out/orders.html").read_text()
    assert "grant of READ on topic literal `orders-1` to User:b from 2026-" in page
    assert "\u202e" not in page


def test_authors_are_named_if_the_audit_log_has_them() -> None:
    asked = LINE.replace("READ", "ALTER").replace("Topic", "Cluster").replace("Fetch", "CreateAcls")
    time = format_time(START_MS + 50 * DAY_MS - 500).replace("T", " ").replace(".", ",")
    request = asked.format(time[:-1], "User:root", "Allowed", "kafka-cluster")
    Path("acls.log").write_text("".join((line(49.999), request, line(50.001))))
    review("--audit acls.log")
    found = rows()
    assert found[name_cells(NEW)]["added_by"] == "User:root (the only caller in the given logs)"
    assert found[name_cells(USED)]["added_by"].startswith("unknown: the audit logs begin at ")
    assert "found in the audit logs of --audit" in read("orders")


def test_every_acl_is_on_the_page_of_each_owner_or_of_none() -> None:
    review()
    names = ("orders", "everyone", "nobody", "no-owner")
    found = {name: set(rows(name)) for name in names}
    cells = {each: name_cells(each) for each in (*OLD, NEW)}
    assert found["orders"] == {cells[each] for each in cells} - {
        cells[FOREIGN], cells[HOSTILE],
    }  # fmt: skip
    assert (found["everyone"], found["nobody"]) == ({cells[TWICE]}, set())
    assert found["no-owner"] == {cells[FOREIGN], cells[HOSTILE]}
    assert "2 ACLs without an owner: name one, or remove them" in read("no-owner")
    assert "no ACLs: compare the entries of this owner" in read("nobody")
    assert "1 ACL with other owners: everyone" in read("orders")


def read(name: str) -> str:
    return Path("out", f"{name}.html").read_text()


def test_page_is_self_contained_and_escaped() -> None:
    review()
    for path in Path("out").glob("*.html"):
        elements = Elements(path.read_text())
        assert not {"script", "link", "img", "iframe", "form"} & set(elements.names)
        assert "script-src" not in path.read_text()
        assert "\u202e" not in path.read_text()
    assert "User:&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in read("no-owner")


def test_page_and_manifest_name_what_was_reviewed() -> None:
    review()
    manifest = json.loads(Path("out/review.json").read_text())
    digest = digest_acls([*OLD, NEW])
    assert manifest["digest"] == digest
    assert (manifest["acls"], manifest["offset"], manifest["kafka_release"]) == (8, 9, "4.3")
    assert manifest["settings"][0] == "super.users= (--super-users)"
    assert [file["path"].rpartition("/")[2] for file in manifest["logs"]] == ["audit.log"]
    files = {name: each for owner in manifest["owners"] for name, each in owner["files"].items()}
    assert len(files) == 8
    for name, named in files.items():
        assert named == f"sha256:{sha256(Path('out', name).read_bytes()).hexdigest()}"
    page = read("orders")
    for text in (digest, files["orders.csv"][7:], "at log offset 9", "Kafka release in force",
                 "super.users= (--super-users)", "0 super users may do everything"):  # fmt: skip
        assert text in page


def test_same_input_gives_the_same_bytes() -> None:
    review()
    review(out="again")
    for path in Path("out").iterdir():
        assert path.read_bytes() == Path("again", path.name).read_bytes()


@pytest.mark.parametrize(("users", "said"), [
    ("--super-users=User:root;User:admin", "2 super users may do everything without an ACL"),
    (None, "it is not known who may do everything without an ACL: pass --super-users"),
])  # fmt: skip
def test_people_without_acls_are_named(users: str | None, said: str) -> None:
    words = ["review", "--log-dir", "log", "--owner", "team.yaml", "--out", "out"]
    run_main(*words, *([] if users is None else [users]))
    assert said in read("orders")


@pytest.mark.parametrize(("team", "words", "code", "error"), [
    ("owners: [", "", 1, "team.yaml: line 2: did not find expected node content"),
    (TEAM.replace("TOPIC", "TOPICS"), "", 1, "line 2, column 12: owners.orders[0]: Invalid enum"),
    (TEAM, "--logs none.log", 1, "none.log: no such file or directory"),
    (TEAM, "--logs audit.log --events x", 2, "not allowed with argument"),
    (TEAM, "--tz CET", 2, "--tz: expected --logs"),
    (TEAM, "--acls plan.json", 1, "plan.json: expected a file that is read as a whole"),
    (TEAM, "--acls none.txt --audit none.log", 2, "--audit: expected --log-dir or --config"),
    (TEAM, "--since 3", 2, "expected a time such as 30s, 24h or 7d, found '3'"),
])  # fmt: skip
def test_faulty_arguments_are_rejected(team: str, words: str, code: int, error: str) -> None:
    Path("team.yaml").write_text(team)
    unread = {"address": "a.b", "type": "redpanda_acl", "mode": "managed", "values": {}}
    module = {"root_module": {"resources": [unread]}}
    Path("plan.json").write_text(json.dumps({"format_version": "1.2", "planned_values": module}))
    Path("none.txt").write_text(format_acls([USED]))
    source = "" if "--acls" in words else "--log-dir log"
    assert error in review(words, source, code=code).err
    assert not Path("out").exists()


def test_earlier_review_is_not_overwritten() -> None:
    review()
    assert "--out: out: not empty" in review(code=1).err


def test_decisions_become_a_plan() -> None:
    review()
    heading, *cells = split(Path("out/orders.csv"))
    found = read_sheet(Path("out/orders.csv").read_bytes()).rows
    decisions = {name_cells(IDLE): "remove", name_cells(USED): "keep", name_cells(TWICE): "remove"}
    lines = [[decisions.get(row.acl, ""), "INC-7", *each[2:]]
             for row, each in zip(found, cells, strict=True)]  # fmt: skip
    text = "\n".join(";".join(f'"{cell}"' for cell in row) for row in [heading, *lines])
    Path("orders.csv").write_text(text)
    words = ("acls", "plan", "--review", "orders.csv", "--log-dir", "log", "--out", "plan.json",
             "--traffic", "audit.log", *KNOWN_SETTINGS)  # fmt: skip
    undecided = run_main(*words[:3], "out/orders.csv", *words[4:])
    assert "nothing to do: 8 ACLs, as desired" in undecided.out
    printed = run_main(*words, code=10)
    made = decode_plan(Path("plan.json").read_bytes())
    assert (made.changes.deleted, made.changes.created) == ((IDLE,), ())
    assert [each.reason for each in made.reasons] == ["orders: INC-7"]
    assert "-   ALLOW User:b READ from any host" in printed.out
    assert "reason: ALLOW User:b READ from any host on topic literal `orders-1`: orders: INC-7" in (
        printed.out
    )
    assert (
        "warning: ALLOW User:* READ on TOPIC LITERAL orders-2 is not removed: it also belongs to "
        "everyone, who did not decide to remove it" in printed.out
    )


def test_removal_denies_what_a_plan_would_deny(real_log_dir: Path) -> None:
    """Each ACL alone, compared with the judge of plans, on a real broker's log."""
    log = str(real_log_dir / "kafka-authorizer.log.xz")
    settings = AuthorizerSettings(frozenset(("User:admin",)))
    words = ("--super-users=User:admin", "--allow-everyone-if-no-acl-found=false")
    run_main("review", "--owner", "team.yaml", "--out", "out", "--log-dir", real_log_dir,
             "--logs", log, *words)  # fmt: skip
    traffic, before = read_traffic(IngestPlan(inputs=(log,), out="")), read_snapshot(real_log_dir)
    found = [row for row in rows("no-owner").values() if row["use"] == "used"]
    assert len(found) > 30
    for row in found[::4]:
        acl_id = bytes.fromhex(row["id"].removeprefix("uuid-"))
        evidence = judge_traffic(
            traffic, before, apply_changes(before, [AclRemoved(acl_id)]), settings
        )
        assert evidence.newly_denied.events == int(row["newly_denied"])
