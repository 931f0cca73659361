import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from authorizerd.acl.decision import AuthorizerSettings, explain
from authorizerd.acl.model import Acl
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.snapshot import with_rules
from authorizerd.management.formats.catalogue import FORMATS
from authorizerd.management.formats.document import read_document
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.formats.parsing import parse_json, parse_yaml
from authorizerd.replay.usage.report import named
from tests.management.formats.faults import check_fault
from tests.support.acls import acl, question, snapshot_of
from tests.support.strategies import acls

USUAL = {
    "principal": "User:a", "operation": "READ", "permission_type": "ALLOW",
    "resource_type": "TOPIC", "resource_name": "t",
}  # fmt: skip
ACL = Acl(2, "t", 3, "User:a", "*", 3, 3)


def document(**changed: Any) -> dict[str, Any]:  # noqa: ANN401 - wrong values too
    entry = {key: value for key, value in {**USUAL, **changed}.items() if value is not ...}
    return {"acls": [USUAL | {"principal": "User:first"}, entry]}


def test_host_and_pattern_type_have_defaults() -> None:
    assert list(read_document({"acls": [USUAL]})) == [ACL]
    assert list(read_document({"acls": []})) == []


def test_yaml_and_json_documents_are_equal() -> None:
    text = """
acls:
  - principal: User:Jörg, Müller   # a comment
    host: 10.0.0.7
    operation: [Read, describe_configs, DescribeTokens]
    permission_type: Deny
    resource_type: transactionalId
    resource_name: "*"
    pattern_type: prefixed
"""
    expected = [
        Acl(5, "*", 4, "User:Jörg, Müller", "10.0.0.7", operation, 2) for operation in (3, 10, 14)
    ]
    value = parse_yaml(text)
    assert list(read_document(value)) == expected
    assert parse_json(json.dumps(value)) == value


RANGES = """
acls:
  - {principal: "User:app", operation: ALL, permission_type: ALLOW,
     resource_type: TOPIC, resource_name: events}
  - {principal: "User:app", host: "10.9.0.0/16", operation: ALL, permission_type: DENY,
     resource_type: TOPIC, resource_name: events}
  - {principal: "User:net", host: "10.9.0.0/16", operation: READ, permission_type: ALLOW,
     resource_type: TOPIC, resource_name: events}
"""


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [(RULES_4_3, ["User:app"]), (RULES_4_4, ["User:net"]), (ANY_RELEASE, [])],
    ids=str,
)
def test_ranges_of_a_document_match_by_the_rules_of_the_release(
    rules: ReleaseRules, allowed: list[str]
) -> None:
    snapshot = with_rules(snapshot_of(*read_document(parse_yaml(RANGES))), rules)
    asked = [question(each, host="10.9.3.4", topic="events") for each in ("User:app", "User:net")]
    decided = [each for each in asked if explain(snapshot, AuthorizerSettings(), each).allowed]
    assert [each.principal for each in decided] == allowed


@given(st.lists(acls().filter(lambda acl: acl.resource_name), max_size=5, unique=True))
def test_every_acl_can_be_written_as_a_document(some: list[Acl]) -> None:
    entries = [to_builtins(named(acl)) for acl in some]
    text = json.dumps({"acls": entries})
    assert list(read_document(parse_json(text))) == some
    assert list(read_document(parse_yaml(text))) == some


@pytest.mark.parametrize(("value", "place", "reason"), [
    (None, "document", "expected a mapping, found nothing"),
    ([], "document", "expected a mapping, found list"),
    ({}, "document", "missing key 'acls'"),
    ({"acls": [], "version": 1}, "document", "unknown key 'version'"),
    ({"acls": None}, "acls", "expected a list of ACLs, found nothing"),
    ({"acls": ["x"]}, "acls[0]", "expected a mapping, found str"),
    (document(principle="x"), "acls[1]", "'principle' (did you mean principal?): expected"),
    (document(operation=...), "acls[1]", "missing key 'operation'"),
    (document(permission_type=...), "acls[1]", "missing key 'permission_type'"),
    (document(operation="RAED"), "acls[1].operation", "unknown Operation 'RAED'"),
    (document(operation=[]), "acls[1].operation", "an empty list"),
    (document(operation=["READ", 3]), "acls[1].operation[1]", "in quotes, found int '3'"),
    (document(operation="ANY"), "acls[1]", "Invalid operation ANY"),
    (document(operation="UNKNOWN"), "acls[1]", "Invalid operation UNKNOWN"),
    (document(pattern_type="MATCH"), "acls[1]", "Invalid patternType MATCH"),
    (document(permission_type="ANY"), "acls[1]", "Invalid permissionType ANY"),
    (document(resource_type="ANY"), "acls[1]", "Invalid resourceType ANY"),
    (document(resource_name=""), "acls[1]", "Invalid empty resource name"),
    (document(resource_name=7), "acls[1].resource_name", "text in quotes, found int '7'"),
    (document(resource_name="\ud800"), "acls[1].resource_name", "half of a surrogate pair"),
    (document(resource_type="CLUSTER"), "acls[1]", "only valid name for the CLUSTER"),
    (document(principal="alice"), "acls[1]", "no colon is present"),
    (document(host=None), "acls[1].host", "expected text in quotes, found nothing"),
    (document(operation=["READ", "Read"]), "acls[1]", "repeats acls[1]"),
    (document(principal="User:first"), "acls[1]", "repeats acls[0]"),
])  # fmt: skip
def test_faults_are_named_with_their_place(value: object, place: str, reason: str) -> None:
    check_fault(lambda given: [*read_document(given)], value, place, reason)


@pytest.mark.parametrize(("name", "text", "place", "reason"), [
    ("yaml", "acls:\n- host: a\n  host: b\n", "line 3", "duplicate key 'host'"),
    ("yaml", "acls: []\nacls: []\n", "line 2", "duplicate key 'acls'"),
    ("yaml", "a: &a x\nb:\n  <<: *a\n", "line 1", "expected a mapping, or a list of them, after"),
    ("yaml", "b:\n  <<: {}\n  <<: {}\n", "line 3", "duplicate key '<<'"),
    ("yaml", "a: &a {x: 1}\nb:\n  <<: [*a, [*a]]\n", "line 3", "expected a mapping, or a list"),
    ("kafka-gitops", "users:\n  <<: {}\n", "line 2", "does not read merge keys"),
    ("julie", "context: a\n<<: {}\n", "line 2", "does not read merge keys"),
    ("yaml", "acls:\n- host: *\n", "line 2", "expected alphabetic"),
    ("yaml", "acls: [\n", "line 2", ""),
    ("yaml", "a: !!python/object/apply:os.system [x]\n", "line 1", "constructor"),
    ("yaml", "a: 1\n---\nb: 2\n", "line 2", ""),
    ("yaml", "a: \x00", "document", "not YAML"),
    ("yaml", "a: 2026-99-99", "line 1", "of the type 'timestamp', found '2026-99-99'"),
    ("yaml", "- a\n- !!timestamp x", "line 2", "of the type 'timestamp', found 'x'"),
    ("yaml", "a: 0x_", "line 1", "of the type 'int', found '0x_'"),
    ("yaml", "a: !!int ''", "line 1", "of the type 'int', found ''"),
    ("yaml", "a: !!bool x", "line 1", "of the type 'bool', found 'x'"),
    ("yaml", "a: !!binary é", "line 1", "of the type 'binary', found 'é'"),
    ("json", '{"acls": [{"host": "a", "host": "b"}]}', "document", "duplicate key 'host'"),
    ("json", '{"acls": [\n}', "line 2", "not JSON"),
    ("json", "[" * 100_000, "document", "not JSON"),
    ("json-lines", '{"host": "a"}\n', "line 1", "missing key 'principal'"),
    ("json-lines", '\n{"host": "a",\n', "line 2", "not JSON"),
    ("json-lines", '{"host": "a", "host": "b"}', "line 1", "duplicate key 'host'"),
    ("json-lines", "[]", "line 1", "expected a mapping"),
])  # fmt: skip
def test_line_of_unreadable_text_is_named(name: str, text: str, place: str, reason: str) -> None:
    check_fault(FORMATS[name].read, text, place, reason)


def test_deeply_nested_yaml_is_rejected() -> None:
    with pytest.raises(AclTextError):
        parse_yaml("[" * 1_000_000)
    with pytest.raises(AclTextError, match="nested more than 16 levels deep"):
        parse_yaml("- " * 17)


@pytest.mark.parametrize(("text", "line", "reason"), [
    ("a: &a [" + "x, " * 99 + "]\n" + "".join(
        f"{after}: &{after} [{', '.join([f'*{before}'] * 99)}]\n"
        for before, after in ("ab", "bc", "cd", "de")
    ), 4, "aliases make more than 10,000,000 values"),
    ("a: &a [x]\n" + "".join(
        f"b{level}: &{chr(98 + level)} [*{chr(97 + level)}]\n" for level in range(20)
    ), 16, "nested more than 16 levels deep"),
    ("a: &a {" + "".join(f"k{number}: 1, " for number in range(99)) + "}\n" + "".join(
        f"{after}: &{after} {{<<: [{', '.join([f'*{before}'] * 99)}]}}\n"
        for before, after in ("ab", "bc", "cd", "de")
    ), 4, "aliases make more than 10,000,000 values"),
    ("a: &a\n  <<: *a\n", 2, "nested more than 16 levels deep"),
    ("a:\n- &a [*a]\n", 2, "nested more than 16 levels deep"),
    ("a:\n- &b [x, *c]\n", 2, "nested more than 16 levels deep"),
])  # fmt: skip
def test_aliases_count_as_copies(text: str, line: int, reason: str) -> None:
    check_fault(parse_yaml, text, f"line {line}", reason)


def test_merge_keys_stand_for_keys_that_are_not_there() -> None:
    """Those of the mapping itself come first, then those of the first mapping in a list."""
    text = """
a: &a {x: 1, y: 1}
b: &b {<<: *a, y: 2, z: 2}
c: {<<: [*b, {x: 3, w: 3}], z: 4}
d: *b
e: {"<<": 1}
"""
    assert parse_yaml(text) == {
        "a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 2, "z": 2}, "c": {"x": 1, "y": 2, "z": 4, "w": 3},
        "d": {"x": 1, "y": 2, "z": 2}, "e": {"<<": 1},
    }  # fmt: skip


def test_aliases_may_repeat_a_value() -> None:
    assert parse_yaml("a: &a [x]\nb: [*a, *a]\nc: &c y\nd: *c\n") == {
        "a": ["x"], "b": [["x"], ["x"]], "c": "y", "d": "y",
    }  # fmt: skip


@given(st.text(max_size=60) | st.text("{}[]:,-&*!|>'\"\n acls#%@", max_size=40))
def test_any_text_gives_acls_or_a_document_error(text: str) -> None:
    for name in ("yaml", "json"):
        with contextlib.suppress(AclTextError):
            FORMATS[name].read(text)


def test_written_yaml_is_grouped_and_sorted() -> None:
    some = [
        acl("User:b", "WRITE", host="0:0:0:0:0:0:0:1"),
        acl("User:b", "READ", pattern="PREFIXED", deny=True, host="10.0.0.7"),
        acl("User:b", "READ", host="0:0:0:0:0:0:0:1"),
        acl("User:b", "READ", host="0:0:0:0:0:0:0:1"),
        acl("User:*", "TWO_PHASE_COMMIT", transactional_id="yes"),
        acl("User:CN=Jörg, O=b", "ALL", cluster=True),
    ]
    expected = """
acls:
  - principal: User:*
    operation: [TWO_PHASE_COMMIT]
    permission_type: ALLOW
    resource_type: TRANSACTIONAL_ID
    resource_name: "yes"
  - principal: "User:CN=Jörg, O=b"
    operation: [ALL]
    permission_type: ALLOW
    resource_type: CLUSTER
    resource_name: kafka-cluster
  - principal: User:b
    host: "0:0:0:0:0:0:0:1"
    operation: [READ, WRITE]
    permission_type: ALLOW
    resource_type: TOPIC
    resource_name: t
  - principal: User:b
    host: 10.0.0.7
    operation: [READ]
    permission_type: DENY
    resource_type: TOPIC
    resource_name: t
    pattern_type: PREFIXED
"""
    assert FORMATS["yaml"].write(some).text == expected.removeprefix("\n")
    assert json.loads(FORMATS["json"].write(some).text) == parse_yaml(expected)
    assert FORMATS["yaml"].write([]).text == "acls: []\n"
