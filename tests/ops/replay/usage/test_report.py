"""The report of the use of ACLs, and the script of what it suggests."""

import json
import sys
from pathlib import Path
from subprocess import CompletedProcess

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, Operation, ResourceType
from authorizerd.acl.notes import Note, make_note
from authorizerd.acl.text.kafka_acls import entry_arguments
from authorizerd.replay.acl_set import AclSet, DatedAcl, digest_of
from authorizerd.replay.judging.report import Count, JudgedBy
from authorizerd.replay.text import encode_json
from authorizerd.replay.usage.evaluation import Age, Window, age_of, describe_suggestions, sort_acls
from authorizerd.replay.usage.report import (
    NamedAcl,
    Proof,
    UnusedAcl,
    UsageReport,
    UsedAcl,
    WindowReport,
    decode_usage,
    named,
    script,
    script_comments,
    summary,
)
from authorizerd.replay.usage.suggestions import Suggestions
from authorizerd.replay.usage.uses import AclUsage
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.support.programs import run_program
from tests.support.strategies import acls

USED = AclUsage(Count(events=2, tuples=1), Count(events=3, tuples=2), 1_500, 2, ("a", "b"), "b")
PLAIN = AclUsage(Count(events=1, tuples=1), Count(), 1_500)
WINDOW = Window(1_000, 2_000)


def sort(
    acl_set: AclSet, usage: dict[Acl, AclUsage]
) -> tuple[tuple[UsedAcl, ...], dict[str, tuple[UnusedAcl, ...]]]:
    used, others = sort_acls(
        {each: age_of(each, WINDOW, assume_in_force=False) for each in acl_set.acls}, usage
    )
    return used, {age.value: some for age, some in others.items()}


def test_a_note_is_neither_used_nor_unused() -> None:
    note = make_note(Note("other", {"a": "1"}))
    used, others = sort(acl_set_of([note]), {})
    assert used == ()
    assert not any(others.values())


def example_report() -> UsageReport:
    """Return a report with every kind of content."""
    wide, unused, young = topic_read("*"), topic_read("u"), topic_read("y")
    undated = topic_read("undated")
    dates = {wide: 1, unused: 1, young: 1_001, undated: None}
    acl_set = AclSet(
        source="a\nb", acls=tuple(DatedAcl(acl, added_ms) for acl, added_ms in dates.items()),
        digest=digest_of(dates), offset=7, stamped_ms=999, super_users=(),
        allow_everyone_if_no_acl_found=False,
    )  # fmt: skip
    narrower = (topic_read("a"), topic_read("b"))
    suggestions = Suggestions({unused: (), wide: narrower}, {undated: "why"})
    usage = {wide: USED}
    used, others = sort(acl_set, usage)
    return UsageReport(
        acls=JudgedBy.of(acl_set),
        window=WindowReport(
            begins_at="b", ends_at="e", allowed_first_at="f", allowed_last_at="l",
            lookback_days=None, allowed_events=1_234, denied_events=1, tuples=3,
        ),
        assumed_in_force=False, not_evaluated={"unknown operation": Count(events=1, tuples=1)},
        by_super_users=Count(), disagreeing=Count(events=2, tuples=1), used=used,
        unused=others.pop(Age.IN_FORCE), not_judged={**others},
        suggestions=describe_suggestions(suggestions, usage, Proof(digest="d", acls=4, tuples=2)),
    )  # fmt: skip


def test_report_reads_back_with_counts_names_and_times() -> None:
    report = example_report()
    assert decode_usage(encode_json(report)) == report
    (used,) = report.used
    assert (used.alone, used.with_others) == (Count(events=2, tuples=1), Count(events=3, tuples=2))
    assert (used.last_used_at, used.names) == ("1970-01-01T00:00:01.500Z", 2)
    assert used.added_at == "1970-01-01T00:00:00.001Z"
    (narrowing,) = report.suggestions.narrowings
    assert (narrowing.names, narrowing.events) == (2, 5)


@given(st.lists(st.tuples(acls(), st.sampled_from([None, 999, 1_000, 9_999]), st.booleans())))
def test_every_acl_is_in_exactly_one_group(rows: list[tuple[Acl, int | None, bool]]) -> None:
    dated = {acl: (added_ms, is_used) for acl, added_ms, is_used in rows}
    acl_set = AclSet(
        source="s",
        acls=tuple(DatedAcl(acl, added_ms) for acl, (added_ms, _) in dated.items()),
        digest="d",
    )
    usage = {acl: PLAIN for acl, (_, is_used) in dated.items() if is_used}
    used, others = sort(acl_set, usage)
    place = {
        "used": [item.acl for item in used],
        **{age: [item.acl for item in items] for age, items in others.items()},
    }
    ages = {None: "age_unknown", 999: "in_force", 1_000: "added_within", 9_999: "added_within"}
    expected: dict[str, list[NamedAcl]] = {key: [] for key in place}
    for acl, (added_ms, is_used) in dated.items():
        is_used_since = is_used and added_ms != 9_999
        expected["used" if is_used_since else ages[added_ms]].append(named(acl))
    assert place == expected


def test_unknown_code_is_its_number() -> None:
    acl = Acl(ResourceType.TOPIC, "t", 9, "User:a", "*", Operation.READ, -3)
    assert (named(acl).pattern_type, named(acl).permission_type) == ("9", "-3")


def test_summary_is_short() -> None:
    assert list(summary(example_report())) == [
        "4 ACLs of a\\nb, 3 tuples of 1,234 allowed events and 1 denied event", "window: b to e",
        "allowed decisions were logged from f to l", "not evaluated: 1 event (unknown operation)",
        "decided differently by these ACLs than recorded: 2 events",
        "used: 1; never used: 1 ALLOW, 0 DENY",
        "not judged, added during or after the window: 1", "not judged, of unknown age: 1",
        "suggested: 1 removal, 1 narrowing", "not suggested, with reasons in usage.json: 1",
        "proof: evaluated on 2 tuples, the suggested ACLs change no decision",
    ]  # fmt: skip
    assert any("f to l" in comment for comment in script_comments(example_report()))


def test_summary_says_which_settings_are_unknown() -> None:
    acls = JudgedBy.of(acl_set_of([topic_read("t")], super_users=None, allow_everyone=None))
    assert list(summary(msgspec.structs.replace(example_report(), acls=acls)))[3:5] == [
        "super.users is unknown, so super users are judged by the ACLs alone",
        "allow.everyone.if.no.acl.found is unknown, and taken to be false",
    ]
    told = JudgedBy.of(acl_set_of([topic_read("t")], super_users=("User:b",), allow_everyone=True))
    assert (told.super_users, told.allow_everyone_if_no_acl_found) == (("User:b",), True)
    assert (told.acls, told.stamped_at, told.source) == (1, None, "test")


SERVER = ["--bootstrap-server", "h:9092"]
NASTY = "it's `$(touch x)` \"\\ \n* ; é --force"


def run_script(
    folder: Path, text: str, *arguments: str
) -> tuple[CompletedProcess[str], list[list[str]]]:
    """Run a script with a double of kafka-acls; return how it ended, and each call's arguments."""
    program, calls = folder / "program.py", folder / "calls"
    (folder / "commands.sh").write_text(text)
    program.write_text(
        "import json, sys\n"
        f"open({str(calls)!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
        "sys.exit('fails' in sys.argv)\n"
    )
    environment = {"KAFKA_ACLS": f"{sys.executable} {program}"}
    ran = run_program("sh", folder / "commands.sh", *arguments, env=environment)
    lines = calls.read_text().splitlines() if calls.exists() else []
    return ran, [json.loads(line) for line in lines]


def test_script_adds_before_it_removes_and_quotes_names(tmp_path: Path) -> None:
    wide, narrow = topic_read("*"), topic_read(f"x{NASTY}", principal=f"User:{NASTY}")
    text = script([f"source\nexit 7 {NASTY}"], [wide], [narrow])
    ran, calls = run_script(tmp_path, text, *SERVER)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert calls == [
        [*SERVER, "--add", *entry_arguments(narrow)],
        [*SERVER, "--remove", "--force", *entry_arguments(wide)],
    ]
    assert "--resource-pattern-type literal" in text


def test_script_stops_at_a_failure_and_needs_arguments(tmp_path: Path) -> None:
    text = script([], [topic_read("*")], [topic_read("fails"), topic_read("b")])
    ran, calls = run_script(tmp_path, text)
    assert (ran.returncode, calls) == (2, [])
    assert "--bootstrap-server HOST:PORT" in ran.stderr
    ran, calls = run_script(tmp_path, text, *SERVER)
    assert (ran.returncode, len(calls)) == (1, 1)
    assert script([], [], []).count("# none\n") == 2
