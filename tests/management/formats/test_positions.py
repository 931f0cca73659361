"""The line and column that an error of a YAML or JSON document names."""

from __future__ import annotations

import json

import pytest

from authorizerd.management.formats.catalogue import FORMATS
from authorizerd.management.formats.model import AclTextError

ENTRY = """\
  - principal: User:a
    operation: [READ, WRITE]
    permission_type: ALLOW
    resource_type: TOPIC
    resource_name: é
"""
TEXT = f"acls:\n{ENTRY}{ENTRY.replace(':a', ':b')}"
STRIMZI = """\
---
# Documents without content do not count.
---
{apiVersion: kafka.strimzi.io/v1, kind: KafkaUser, metadata: {name: a}, spec: {}}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata: {name: b}
spec:
  authorization: {type: simple, acls: [{resource: {type: topic, name: t}, operations: [Raed]}]}
"""


def read_error(text: str, format: str = "yaml") -> str:
    with pytest.raises(AclTextError) as raised:
        FORMATS[format].read(text)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            TEXT[::-1].replace("ETIRW", "ETIWR", 1)[::-1],
            "line 8, column 23: acls[1].operation[1]: unknown Operation 'RWITE' (did you mean "
            "WRITE?)",
        ),
        (
            TEXT.replace("TOPIC", "TOPC"),
            "line 5, column 20: acls[0].resource_type: unknown ResourceType 'TOPC' (did you mean "
            "TOPIC?)",
        ),
        (
            TEXT.replace("ALLOW", "PERMIT"),
            "line 4, column 22: acls[0].permission_type: unknown PermissionType 'PERMIT': "
            "expected one of DENY, ALLOW",
        ),
        (
            TEXT.replace("operation", "operaton"),
            "line 3, column 15: acls[0]: unknown key 'operaton' (did you mean operation?): "
            "expected one of principal, ",
        ),
        (TEXT.replace(":b", ":a"), "line 7, column 5: acls[1]: repeats acls[0]: "),
        (
            TEXT.replace("    resource_name: é\n", ""),
            "line 2, column 5: acls[0]: missing key 'resource_name'",
        ),
        (
            TEXT.replace("name: é", "name:\n      [x]"),
            "line 6, column 5: acls[0].resource_name: expected text in quotes, found list",
        ),
        (TEXT + "manages: []\n", "line 12, column 10: manages: expected at least one entry"),
        (
            TEXT + "manages: [{principal: User:a}, {}]\n",
            "line 12, column 32: manages[1]: expected at least one field",
        ),
        ("x: 1\n" + TEXT, "line 1, column 4: document: unknown key 'x': expected one of acls"),
        ("a.b: 1\n" + TEXT, "line 1, column 6: document: unknown key 'a.b': expected one of"),
        ("[]", "document: expected a mapping, found list"),
        ("manages: [{}]", "document: missing key 'acls'"),
        ("acls: [", "line 2: "),
        ("? [a]\n: 1\n", "line 1: "),
    ],
)
def test_error_names_line_and_column(text: str, expected: str) -> None:
    assert read_error(text).startswith(expected)


def test_error_in_json_names_line_and_column() -> None:
    entry = {
        "principal": "User:a",
        "operation": "RAED",
        "permission_type": "ALLOW",
        "resource_type": "TOPIC",
        "resource_name": "t",
    }
    text = json.dumps({"acls": [entry]}, indent=1)
    assert read_error(text, "json").startswith("line 5, column 17: acls[0].operation: unknown")
    entry["principal"] = "User:\U0001f600"  # an escape of JSON that YAML does not have
    text = json.dumps({"acls": [entry]}, indent=1)
    assert read_error(text, "json").startswith("acls[0].operation: unknown Operation 'RAED'")


def test_error_in_one_of_several_documents_names_its_line() -> None:
    error = read_error(STRIMZI, "strimzi")
    assert error.startswith("line 10, column "), error


def test_place_that_is_no_path_is_left_alone() -> None:
    error = read_error('{"path": "/kafka-acl/Nothing/t", "data": "e30="}', "zookeeper")
    assert error.startswith("line 1")
    assert "column" not in error
