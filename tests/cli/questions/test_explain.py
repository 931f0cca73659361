"""``authorizerd explain``: the reasons, what is close, and the change, by a log and by a broker."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from authorizerd.cli.broker_acls import BrokerAnswer
from authorizerd.cli.program.command_parser import CommandParser
from authorizerd.cli.questions.explain import add_explain_arguments
from authorizerd.protocol.decisions.explanations import ExplanationAnswer
from authorizerd.protocol.records.batch import ControlType
from tests.cli.questions.small_log import ACLS, ask, document, write_small_log
from tests.support.acls import acl, snapshot_of
from tests.support.log_files import (
    METADATA_VERSION,
    added,
    control_batch,
    data_batch,
    flipped,
    removed,
    write_log,
    write_segment,
)

TIME = "2026-10-14T17:46:40.000Z"
ROBOT = "explain --principal User:robot --operation write --topic status"


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_log(tmp_path_factory.mktemp("log"))


@pytest.mark.parametrize(("words", "code", "expected"), [
    (f"{ROBOT} --host 10.0.0.8", 3,
     ["Principal = User:robot is Denied operation = WRITE from host = 10.0.0.8 ",
      "at log offset 27, with 11 ACLs", "allow.everyone.if.no.acl.found is false", "near misses:",
      "  User:robot is allowed WRITE on topic `status` from host 10.0.0.7, but not ",
      "  User:robot is allowed READ and DESCRIBE on topic `status`, but not WRITE.",
      "to allow it, add one ACL:",
      "  kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:robot ",
      "with super.users= (--super-users)"]),
    (f"{ROBOT} --host 10.0.0.7", 0,
     ["Principal = User:robot is Allowed operation = WRITE from host = 10.0.0.7 ",
      "  StandardAcl[resourceType=TOPIC, resourceName=status, patternType=LITERAL, "
      "principal=User:robot, host=10.0.0.7, operation=WRITE, permissionType=ALLOW]: "
      "allows WRITE; this ACL decides", "at log offset 27, with 11 ACLs",
      "allow.everyone.if.no.acl.found is false", "to deny it, remove one ACL:",
      "  kafka-acls --bootstrap-server HOST:PORT --remove --force --allow-principal ",
      "with super.users= (--super-users)"]),
])  # fmt: skip
def test_every_line_begins_as_expected(
    log_dir: Path, capsys: pytest.CaptureFixture[str], words: str, code: int, expected: list[str]
) -> None:
    assert ask(words, "--log-dir", log_dir) == code
    printed = capsys.readouterr().out.splitlines()
    assert [line[: len(begin)] for line, begin in zip(printed, expected, strict=True)] == expected


def test_document_has_the_fields_of_the_decision_port_and_the_source(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, ROBOT, "--log-dir", log_dir)
    fields = [name for name in ExplanationAnswer.__struct_fields__ if name != "as_of"]
    assert [*found] == [*fields, "unknown_settings", "source"]  # the moment is in the source
    assert found["decision"] is False
    assert found["offset"] == found["source"]["offset"] == 27
    assert found["smallest_change"]["change"] == "add"
    assert found["smallest_change"]["acl"] == {
        "resource_type": "TOPIC", "resource_name": "status", "pattern_type": "LITERAL",
        "principal": "User:robot", "host": "*", "operation": "WRITE", "permission_type": "ALLOW",
    }  # fmt: skip


def test_answer_of_a_broker_has_no_offset_and_its_address(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands that change ACLs name the broker that was asked."""
    parser = CommandParser(prog="explain")
    answer = BrokerAnswer(snapshot_of(*ACLS), (), {})
    monkeypatch.setattr("authorizerd.cli.broker_acls.read_brokers", lambda *_: answer)
    add_explain_arguments(parser)
    words = [*ROBOT.split()[1:], "--bootstrap-server", "kafka:9092"]
    printed = []
    for more in ([], ["--json"]):
        arguments = parser.parse_args([*words, *more])
        assert arguments.run(arguments) == 3
        printed.append(capsys.readouterr().out)
    assert "\nas listed by kafka:9092, with 11 ACLs\n" in printed[0]
    assert "  kafka-acls --bootstrap-server kafka:9092 --add " in printed[0]
    found = msgspec.json.decode(printed[1])
    assert found["offset"] is None
    assert found["smallest_change"]["kafka_acls"].startswith(
        "kafka-acls --bootstrap-server kafka:9092 --add "
    )


def test_explanation_of_the_past_says_what_holds_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It shows a change to apply only if today's answer is the same."""
    allow = added(1, acl("User:alice", topic="orders"))
    deny = added(2, acl("User:*", topic="orders", deny=True))
    write_log(tmp_path, [added(3, acl("User:bob", topic="orders"))], [allow], [deny], [removed(2)])
    words = "explain --principal User:alice --operation read --topic orders --as-of"
    for offset, is_allowed, change in (
        (2, False, "removed"),
        (3, True, None),
        (4, False, "removed"),
    ):
        assert ask(f"{words} {offset}", "--log-dir", tmp_path) == (0 if is_allowed else 3)
        text = capsys.readouterr().out
        found = document(capsys, f"{words} {offset}", "--log-dir", tmp_path)
        assert found["as_of"]["offset"] == offset
        is_other = change is not None
        assert ("kafka-acls" not in text) == is_other
        assert ("now" in found["as_of"]) == is_other
        if is_other:
            line = (
                f"\nnow: allowed, since offset 5 ({TIME}), because this was removed: {deny.acl}\n"
            )
            assert f"{line}  No change is shown, because today's answer is already the" in text
            now = found["as_of"]["now"]
            assert (now["decision"], now["offset"], now["since"]["offset"]) == (True, 5, 5)
            assert now["since"]["change"] == "remove"


def test_damage_after_the_moment_leaves_only_the_answer_of_now_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = control_batch(0, ControlType.LEADER_CHANGE), data_batch(1, [METADATA_VERSION])
    later = added(1, acl("User:alice", topic="orders"))
    write_segment(tmp_path, 0, *head, flipped(data_batch(2, [later]), 70), data_batch(3, [later]))
    words = "explain --principal User:alice --operation read --topic orders --as-of 1"
    assert ask(words, "--log-dir", tmp_path) == 3
    printed = capsys.readouterr()
    assert "it is not known whether today's answer is another one: " in printed.err
    assert "kafka-acls" in printed.out
