"""The sentences of answers about access, and what ``authorizerd explain`` says."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import authorize
from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.model import Acl, Operation, PatternType, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.cli.acl_source import AclSource, Place
from authorizerd.cli.broker_acls import BrokerAnswer
from authorizerd.cli.program.command_parser import CommandParser
from authorizerd.cli.questions.explain import add_explain_arguments
from authorizerd.cli.questions.phrases import (
    describe_exception,
    describe_operations,
    describe_pattern,
    list_names,
)
from authorizerd.cli.questions.what_can import find_covered, find_entries
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
from tests.support.strategies import acls, resource_names

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


@pytest.mark.parametrize(("resource_type", "pattern_type", "name", "said"), [
    (TOPIC, LITERAL, "orders", "topic orders"),
    (TOPIC, PREFIXED, "orders-", "topics that begin with orders-"),
    (TOPIC, LITERAL, "*", "every topic"),
    (TOPIC, PREFIXED, "*", "topics that begin with *"),
    (TOPIC, PREFIXED, "", "every topic"),
    (TOPIC, 0, "", "topics that no ACL names"),
    (GROUP, LITERAL, "g", "group g"),
    (ResourceType.TRANSACTIONAL_ID, PREFIXED, "x", "transactional ids that begin with x"),
    (ResourceType.CLUSTER, LITERAL, "kafka-cluster", "the cluster"),
    (ResourceType.DELEGATION_TOKEN, LITERAL, "t", "delegation token t"),
    (ResourceType.USER, LITERAL, "User:a", "user User:a"),
])  # fmt: skip
def test_patterns(resource_type: int, pattern_type: int, name: str, said: str) -> None:
    assert describe_pattern(resource_type, pattern_type, name) == said


def test_exceptions() -> None:
    assert describe_exception(LITERAL, "orders-secret") == "orders-secret"
    assert describe_exception(PREFIXED, "orders-x-") == "those that begin with orders-x-"


@pytest.mark.parametrize(("resource_type", "operations", "said"), [
    (TOPIC, [Operation.WRITE, Operation.READ], "READ, WRITE"),
    (TOPIC, SUPPORTED[TOPIC], "every operation"),
    (TOPIC, SUPPORTED[TOPIC][1:], ", ".join(each.name for each in SUPPORTED[TOPIC][1:])),
    (ResourceType.DELEGATION_TOKEN, [Operation.DESCRIBE], "DESCRIBE"),
])  # fmt: skip
def test_operations(resource_type: int, operations: list[int], said: str) -> None:
    assert describe_operations(resource_type, operations) == said


@pytest.mark.parametrize(
    ("limit", "said"), [(None, "a, b, c"), (3, "a, b, c"), (2, "a, b and 1 more")]
)
def test_names_beyond_the_limit_are_counted(limit: int | None, said: str) -> None:
    assert list_names(("a", "b", "c"), limit) == said


TOPICS = ("*a", "orders", "orders-a", "orders-b", "orders-b-1", "payments")


@pytest.mark.parametrize(("pattern_type", "name", "exceptions", "covered"), [
    (LITERAL, "orders", (), ["orders"]),
    (LITERAL, "order", (), []),
    (LITERAL, "zzz", (), []),
    (PREFIXED, "orders-", (), ["orders-a", "orders-b", "orders-b-1"]),
    (PREFIXED, "p", (), ["payments"]),
    (PREFIXED, "q", (), []),
    (PREFIXED, "orders", ((LITERAL, "orders-b"),), ["orders", "orders-a", "orders-b-1"]),
    (PREFIXED, "orders", ((PREFIXED, "orders-b"),), ["orders", "orders-a"]),
    (LITERAL, "*", ((PREFIXED, "orders"),), ["payments"]),
    (PREFIXED, "", (), [*TOPICS]),
])  # fmt: skip
def test_topics_that_a_pattern_covers(
    pattern_type: int, name: str, exceptions: tuple[tuple[int, str], ...], covered: list[str]
) -> None:
    """As in Kafka, the wildcard skips names that begin with an asterisk."""
    assert find_covered(TOPICS, pattern_type, name, exceptions) == covered


HOSTS = ("10.0.0.1", "10.0.0.7", "10.0.0.8")
SETTINGS = st.builds(KnownSettings, st.just(frozenset({"User:root"})), st.booleans())


@given(
    st.frozensets(acls(), max_size=8),
    st.frozensets(resource_names, max_size=6),
    SETTINGS,
    st.sampled_from(("User:a", "User:nobody", "User:root")),
    st.sampled_from(HOSTS),
)
def test_known_topics_are_those_of_which_something_is_allowed(
    held: frozenset[Acl], names: frozenset[str], settings: KnownSettings, principal: str, host: str
) -> None:
    """The name ``*`` is left out, because no topic has it."""
    topics = tuple(sorted(names - {"*"}))
    snapshot = snapshot_of(*held)
    source = AclSource(
        snapshot=snapshot, settings=settings, stated=(), topics=topics, place=Place.LOG, name="log",
        offset=0,
    )  # fmt: skip
    listed = {
        (operation, topic)
        for entry in find_entries(source, principal, host, {TOPIC: SUPPORTED[TOPIC]})
        for operation in entry.operations
        for topic in entry.topics
    }
    assert listed == {
        (operation, topic)
        for operation in SUPPORTED[TOPIC]
        for topic in topics
        if authorize(snapshot, settings.least, principal, host, operation, TOPIC, topic)
    }


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
    log_dir: Path, words: str, code: int, expected: list[str]
) -> None:
    printed = ask(words, "--log-dir", log_dir, code=code).out.splitlines()
    assert [line[: len(begin)] for line, begin in zip(printed, expected, strict=True)] == expected


def test_document_has_the_fields_of_the_decision_port_and_the_source(log_dir: Path) -> None:
    found = document(ROBOT, "--log-dir", log_dir, code=3)
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


def test_explanation_of_the_past_says_what_holds_now(tmp_path: Path) -> None:
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
        code = 0 if is_allowed else 3
        text = ask(f"{words} {offset}", "--log-dir", tmp_path, code=code).out
        found = document(f"{words} {offset}", "--log-dir", tmp_path, code=code)
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


def test_damage_after_the_moment_leaves_only_the_answer_of_now_unknown(tmp_path: Path) -> None:
    head = control_batch(0, ControlType.LEADER_CHANGE), data_batch(1, [METADATA_VERSION])
    later = added(1, acl("User:alice", topic="orders"))
    write_segment(tmp_path, 0, *head, flipped(data_batch(2, [later]), 70), data_batch(3, [later]))
    words = "explain --principal User:alice --operation read --topic orders --as-of 1"
    printed = ask(words, "--log-dir", tmp_path, code=3)
    assert "it is not known whether today's answer is different: " in printed.err
    assert "kafka-acls" in printed.out
