"""``authorizerd history``: the changes that concern a principal or a resource, and the answers."""

import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from authorizerd.acl.audit.line import audit_message
from authorizerd.acl.decision import AuthorizerSettings, Decision, DefaultRule, authorize
from authorizerd.acl.model import (
    WILDCARD_PRINCIPAL,
    Acl,
    AclAdded,
    Operation,
    PatternType,
    Question,
    ResourceType,
)
from authorizerd.acl.patterns import matches
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes, at_offset
from authorizerd.cli.questions.history import UNKNOWN_HOST
from authorizerd.metadata.directory import LogFiles, find_files
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.replay import Replay
from authorizerd.protocol.records.batch import ControlType
from tests.support.acls import KNOWN_SETTINGS, acl
from tests.support.audit import ALTER_CLUSTER, written_line
from tests.support.log_files import (
    METADATA_VERSION,
    TIME_MS,
    acl_id,
    control_batch,
    data_batch,
    flipped,
    removed,
    write_checkpoint,
    write_log,
    write_segment,
)
from tests.support.printed import run_main

PRINCIPALS = 50

ALICE, BOB, EVERYONE = (
    AclAdded(acl_id(number), acl(principal, topic="orders"))
    for number, principal in enumerate(("User:alice", "User:bob", WILDCARD_PRINCIPAL), 1)
)
PREFIX = AclAdded(acl_id(4), acl("User:alice", topic="ord", pattern="PREFIXED"))
OTHER = AclAdded(acl_id(5), acl("User:alice", group="orders"))
TIME = "2026-10-14T17:46:40.000Z"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Write a log: alice may read orders from offset 3 on, by two ACLs in turn, and not from 7."""
    write_log(tmp_path, [BOB], [ALICE], [PREFIX, OTHER], [removed(1)], [removed(4), EVERYONE],
              [removed(3)])  # fmt: skip
    return tmp_path


def print_history(*words: str | Path) -> list[str]:
    return run_main("history", *KNOWN_SETTINGS, *words).out.splitlines()


def document(*words: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_main("history", *KNOWN_SETTINGS, *words, "--json").out)
    return found


def test_changes_of_a_principal_include_those_of_everyone(log_dir: Path) -> None:
    assert print_history("--log-dir", log_dir, "--principal", "User:alice") == [
        f"offset 3 ({TIME}): added: {ALICE.acl}", f"offset 5 ({TIME}): added: {PREFIX.acl}",
        f"offset 5 ({TIME}): added: {OTHER.acl}", f"offset 6 ({TIME}): removed: {ALICE.acl}",
        f"offset 8 ({TIME}): removed: {PREFIX.acl}", f"offset 8 ({TIME}): added: {EVERYONE.acl}",
        f"offset 9 ({TIME}): removed: {EVERYONE.acl}",
        f"from offset 0 ({TIME}) to offset 9 ({TIME})",
    ]  # fmt: skip


@pytest.fixture
def audit_log(tmp_path: Path) -> Path:
    """Write the daemon's lines of two changes; the requests of the others are not in it."""
    path = tmp_path / "audit.log"
    path.write_text(
        written_line(3, "User:carol", at_ms=TIME_MS, via="User:broker\u202e")
        + written_line(8, "User:dan", "DeleteAcls", at_ms=TIME_MS)
    )
    return path


def test_authors_are_named_by_the_audit_logs(log_dir: Path, audit_log: Path) -> None:
    words = ("--log-dir", log_dir, "--principal", "User:alice", "--audit", audit_log)
    unknown = f"(author unknown: the audit logs begin at {TIME})"
    assert print_history(*words)[:5] == [
        f"offset 3 ({TIME}): added by User:carol by way of User:broker\\u202e: {ALICE.acl}",
        f"offset 5 ({TIME}): added {unknown}: {PREFIX.acl}",
        f"offset 5 ({TIME}): added {unknown}: {OTHER.acl}",
        f"offset 6 ({TIME}): removed {unknown}: {ALICE.acl}",
        f"offset 8 ({TIME}): removed by User:dan: {PREFIX.acl}",
    ]
    question = ("--topic", "orders", "--operation", "read", "--host", "10.0.0.1")
    assert print_history(*words, *question)[1] == (
        f"offset 3 ({TIME}): allowed, because this was added by User:carol by way of "
        f"User:broker\\u202e: {ALICE.acl}"
    )
    found = document(*words, *question)
    by = {
        "certainty": "written", "principals": ["User:carol"], "by_way_of": "User:broker\u202e",
        "reason": "",
    }  # fmt: skip
    assert found["changes"][0]["by"] == by
    assert found["answers"][1]["change"]["by"] == by
    assert {each["by"]["certainty"] for each in found["changes"]} == {"written", "unknown"}


@pytest.mark.parametrize(
    ("words", "is_named"),
    [
        (("--audit-tz", "Europe/Berlin"), True),
        ((), False),
        (("--audit-tz", "+02:00", "--audit-latency-ms", "0", "--audit-skew-ms", "0"), False),
    ],
)
def test_zone_and_window_of_audit_logs_can_be_stated(
    words: tuple[str, ...], is_named: bool, log_dir: Path
) -> None:
    path = log_dir / "kafka-authorizer.log"
    question = Question("User:carol", "10.0.0.1", *ALTER_CLUSTER)
    message = audit_message(question, Decision(True, DefaultRule.SUPER_USER), "CreateAcls")
    path.write_text(f"[2026-10-14 19:46:39,999] DEBUG {message} (kafka.authorizer.logger)\n")
    found = document("--log-dir", log_dir, "--principal", "User:alice", "--audit", path, *words)
    assert found["changes"][0]["by"]["principals"] == ["User:carol"] * is_named


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("--audit", "none.log"), 1, "--audit: none.log: no such file"),
        (("--audit", "none.log", "--audit-tz", "Mars"), 2, "unknown time zone 'Mars'"),
        (("--audit", "none.log", "--audit-skew-ms", "-1"), 2, "expected milliseconds"),
    ],
)
def test_audit_log_that_cannot_be_used_is_an_error(
    words: tuple[str, ...], code: int, error: str, log_dir: Path
) -> None:
    done = run_main("history", "--log-dir", log_dir, "--cluster", *words, code=code)
    assert error in done.err


def test_changes_of_a_resource_are_those_of_patterns_that_match_it(log_dir: Path) -> None:
    """Between --since and --until. What is in force at the beginning comes first."""
    words = ("--log-dir", log_dir, "--topic", "orders", "--since", "4", "--until", "7")
    assert print_history(*words) == [
        f"offset 3 ({TIME}): in force: {ALICE.acl}", f"offset 3 ({TIME}): in force: {BOB.acl}",
        f"offset 5 ({TIME}): added: {PREFIX.acl}", f"offset 6 ({TIME}): removed: {ALICE.acl}",
        f"from offset 3 ({TIME}) to offset 6 ({TIME})",
    ]  # fmt: skip


def test_answers_name_the_change_that_made_the_difference(log_dir: Path) -> None:
    """Changes that leave the answer as it is are not shown."""
    words = ("--principal", "User:alice", "--topic", "orders", "--operation", "read")
    assert print_history("--log-dir", log_dir, *words, "--host", "10.0.0.1") == [
        f"offset 0 ({TIME}): denied",
        f"offset 3 ({TIME}): allowed, because this was added: {ALICE.acl}",
        f"offset 9 ({TIME}): denied, because this was removed: {EVERYONE.acl}",
        f"from offset 0 ({TIME}) to offset 9 ({TIME}); the settings are today's",
        "with super.users= (--super-users), allow.everyone.if.no.acl.found=false "
        "(--allow-everyone-if-no-acl-found)",
    ]


def test_denials_of_an_unknown_host_name_the_hosts_that_are_allowed(tmp_path: Path) -> None:
    """One DENY of a single host is not an outage. A DENY for every host has no such words."""
    one = AclAdded(acl_id(6), acl("User:alice", topic="orders", host="10.0.0.7"))
    no = AclAdded(acl_id(7), acl("User:*", topic="ord", pattern="PREFIXED", host="10.0.0.5",
                                 deny=True))  # fmt: skip
    nobody = AclAdded(acl_id(8), acl("User:*", topic="orders", deny=True))
    write_log(tmp_path, [one, OTHER], [ALICE], [no], [removed(7)], [nobody])
    words = ("--principal", "User:alice", "--topic", "orders", "--operation", "read")
    assert print_history("--log-dir", tmp_path, *words, "--since", "3")[:-2] == [
        UNKNOWN_HOST,
        f"offset 3 ({TIME}): denied from an unknown host (allowed only from 10.0.0.7)",
        f"offset 4 ({TIME}): allowed, because this was added: {ALICE.acl}",
        f"offset 5 ({TIME}): denied from an unknown host (allowed from any host except 10.0.0.5),"
        f" because this was added: {no.acl}",
        f"offset 6 ({TIME}): allowed, because this was removed: {no.acl}",
        f"offset 7 ({TIME}): denied, because this was added: {nobody.acl}",
    ]
    lines = print_history("--log-dir", tmp_path, *words, "--since", "4", "--host", "10.0.0.5")
    assert [line.partition(", because")[0] for line in lines[:-2]] == [
        f"offset {offset} ({TIME}): {answer}"
        for offset, answer in ((4, "allowed"), (5, "denied"), (6, "allowed"), (7, "denied"))
    ]  # fmt: skip


def test_any_acl_of_a_resource_may_matter_to_allow_everyone(log_dir: Path) -> None:
    words = ("--principal", "User:carol", "--topic", "orders", "--operation", "read")
    lines = print_history("--log-dir", log_dir, *words, "--allow-everyone-if-no-acl-found")
    assert lines[:5] == [
        UNKNOWN_HOST,
        f"offset 0 ({TIME}): allowed",
        f"offset 2 ({TIME}): denied, because this was added: {BOB.acl}",
        f"offset 8 ({TIME}): allowed, because this was added: {EVERYONE.acl}",
        f"offset 9 ({TIME}): denied, because this was removed: {EVERYONE.acl}",
    ]


def test_json_has_acls_changes_and_answers(log_dir: Path) -> None:
    words = ("--log-dir", log_dir, "--principal", "User:alice", "--topic", "orders")
    found = document(*words, "--operation", "read", "--since", "6")
    prefix = {
        "resource_type": "TOPIC", "resource_name": "ord", "pattern_type": "PREFIXED",
        "principal": "User:alice", "host": "*", "operation": "READ", "permission_type": "ALLOW",
    }  # fmt: skip
    everyone = prefix | {
        "resource_name": "orders", "pattern_type": "LITERAL", "principal": "User:*",
    }  # fmt: skip
    last = {"offset": 9, "time": TIME, "change": "remove", "acl": everyone}
    assert found == {
        "begin": {"offset": 6, "time": TIME},
        "end": {"offset": 9, "time": TIME},
        "acls": [prefix],
        "changes": [
            {"offset": 8, "time": TIME, "change": "remove", "acl": prefix},
            {"offset": 8, "time": TIME, "change": "add", "acl": everyone},
            last,
        ],
        "answers": [
            {"decision": True, "offset": 6, "time": TIME, "change": None},
            {"decision": False, "offset": 9, "time": TIME, "change": last},
        ],
        "unreadable": None,
        "unknown_settings": [],
    }
    assert document(*words)["answers"] is None


def test_history_begins_after_damage(tmp_path: Path) -> None:
    """It says which file is damaged. With --since, what cannot be read is an error."""
    head = control_batch(0, ControlType.LEADER_CHANGE), data_batch(1, [METADATA_VERSION])
    path = write_segment(tmp_path, 0, *head, flipped(data_batch(2, [ALICE]), 70))
    write_checkpoint(tmp_path, 3, [METADATA_VERSION, ALICE])
    write_segment(tmp_path, 3, data_batch(3, [removed(1)]))
    words = ("--log-dir", str(tmp_path), "--principal", "User:alice")
    first, *lines = print_history(*words)
    assert first.startswith(f"the history begins late, because a file is damaged: {path}: at byte ")
    assert "the past can be read from offset 2 on" in first
    assert lines[:2] == [
        f"offset 2 ({TIME}): in force: {ALICE.acl}",
        f"offset 3 ({TIME}): removed: {ALICE.acl}",
    ]
    printed = run_main("history", *words, "--since", "1", code=1)
    assert "the past can be read from offset 2 on" in printed.err


@pytest.mark.parametrize(("words", "said"), [
    ([], "expected --principal, or a resource such as --topic NAME, or both"),
    (["--principal", "User:a", "--operation", "read"], "--operation: expected --principal and"),
    (["--topic", "t", "--operation", "read"], "--operation: expected --principal and a resour"),
    (["--topic", "t", "--host", "10.0.0.1"], "--host: expected --operation as well"),
    (["--topic", "t", "--topic", "u"], "expected exactly one resource, found 2"),
    (["--topic", "t", "--since", "2026-01-01"], "--since: '2026-01-01' has no time zone"),
    (["--topic", "t", "--until", "now"], "--until: expected an offset of the log, such"),
    (["--topic", "t", "--bootstrap-server", "a:1"],
     "history: --bootstrap-server: brokers do not list the past: use --config or --log-dir"),
    (["--topic", "t", "--acls=f"], "history: --acls: a listing has no past: use --config"),
    (["--topic", "t", "u"], "history: unrecognized arguments: u: name a resource with its flag"),
])  # fmt: skip
def test_words_that_do_not_fit_are_named(log_dir: Path, words: list[str], said: str) -> None:
    assert said in run_main("history", "--log-dir", log_dir, *words, code=2).err


@pytest.mark.parametrize(("words", "said"), [
    (["--since", "10"], "offset 10 is in the future: the newest one is 9"),
    (["--until", "10"], "offset 10 is in the future: the newest one is 9"),
    (["--since", "5", "--until", "4"], "would end at offset 4, before it begins at offset 5"),
])  # fmt: skip
def test_moment_out_of_range_is_an_error(log_dir: Path, words: list[str], said: str) -> None:
    assert said in run_main("history", "--log-dir", log_dir, "--topic", "t", *words, code=1).err


def test_log_or_configuration_is_required() -> None:
    printed = run_main("history", "--topic", "t", code=2)
    assert "expected --log-dir DIR, or --config FILE, whose" in printed.err


# The history of random principals of a broker's log, and that of a plain replay.

Line = tuple[int, bool, Acl]


@cache
def replay(log_dir: Path) -> tuple[tuple[AclSnapshot, ...], tuple[Line, ...]]:
    """Return the state after each batch, and all changes, without checkpoints."""
    snapshot, states, lines = EMPTY_SNAPSHOT, [], []
    decoded = Replay()
    for batch in MetadataLog(LogFiles(find_files(log_dir).segments, ())).batches():
        for step in decoded.steps(batch):
            for change in () if step is None else step.changes:
                is_added = isinstance(change, AclAdded)
                found = change.acl if isinstance(change, AclAdded) else snapshot.acls[change.id]
                lines.append((batch.last_offset, is_added, found))
                snapshot = apply_changes(snapshot, [change])
        snapshot = at_offset(snapshot, batch.last_offset)
        states.append(snapshot)
    return tuple(states), tuple(lines)


def lines_of(found: dict[str, Any]) -> list[tuple[int, str, dict[str, str]]]:
    return [(each["offset"], each["change"], each["acl"]) for each in found["changes"]]


def named(found: Acl) -> dict[str, str]:
    return {
        "resource_type": ResourceType(found.resource_type).name,
        "resource_name": found.resource_name, "pattern_type": PatternType(found.pattern_type).name,
        "principal": found.principal, "host": found.host,
        "operation": Operation(found.operation).name,
        "permission_type": "ALLOW" if found.permission_type == 3 else "DENY",
    }  # fmt: skip


def test_history_of_random_principals_equals_that_of_a_replay(real_log_dir: Path) -> None:
    """Their changes, and the answers to a question about each, at every offset."""
    states, lines = replay(real_log_dir)
    random = Random(20)
    principals = sorted({each.principal for _, _, each in lines} - {WILDCARD_PRINCIPAL})
    for principal in random.sample(principals, PRINCIPALS):
        words = ("--log-dir", real_log_dir, f"--principal={principal}")
        own = [each for each in lines if each[2].principal in (principal, WILDCARD_PRINCIPAL)]
        assert lines_of(document(*words)) == [
            (offset, "add" if is_added else "remove", named(found))
            for offset, is_added, found in own
        ]
        asked = random.choice(
            [
                each
                for _, _, each in own
                if each.resource_type == 2 and "," not in each.resource_name
            ]
        )
        operation = Operation(asked.operation if asked.operation != 2 else 3)
        name = asked.resource_name
        found = document(*words, f"--topic={name}", "--operation", operation.name)
        assert [
            (offset, "add" if is_added else "remove", named(each))
            for offset, is_added, each in own
            if each.resource_type == 2 and matches(each.pattern_type, each.resource_name, name)
        ] == lines_of(found)
        answers = [
            (
                state.offset,
                authorize(state, AuthorizerSettings(), principal, None, operation, 2, name),
            )
            for state in states
        ]
        changed = [
            after for before, after in pairwise(answers)
            if before[1] != after[1]
        ]  # fmt: skip
        assert [(each["offset"], each["decision"]) for each in found["answers"]] == [
            answers[0], *changed,
        ]  # fmt: skip
