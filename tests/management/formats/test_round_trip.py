"""What each format reads back, what it cannot say, and the places that its errors name."""

import json
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl
from authorizerd.management.formats.catalogue import FORMATS, detect_format
from authorizerd.management.formats.listing import read_listing
from authorizerd.management.formats.model import AclsWritten, AclTextError, Loss
from tests.support.acls import acl
from tests.support.strategies import acls, any_acls

NAMES = st.one_of(
    st.text("ab-._*!:/ ,'\"#=\\{}[]%$&\n\t\0\x85\u2028\ufeffü😀", max_size=5),
    st.sampled_from((
        "null", "Yes", "~", "12", "1_0", "0x1", "1:30", "2026-01-01", "<<", "=", "---", "- a",
        "a: b", ".inf", "${a}", "%{a}", "kafka-cluster", "CN=a, O=b", "ANONYMOUS", ", host=*",
        "b)`: ",
    )),
)  # fmt: skip
creatable = st.builds(
    Acl,
    st.integers(2, 7),
    NAMES,
    st.sampled_from((3, 4)),
    NAMES.map("User:".__add__)
    | st.sampled_from(("Group:a", "User:*", "User:", "User:CN=a"))
    | NAMES,
    st.sampled_from(("*", "10.0.0.1", "0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1%eth0", "")) | NAMES,
    st.integers(2, 15),
    st.sampled_from((2, 3)),
)
"""ACLs whose names could be misread; most of them, Kafka can create."""

SUFFIXES = {
    "json": ".json", "json-lines": ".jsonl", "listing": ".txt", "terraform": ".json",
    "zookeeper": ".jsonl",
}  # fmt: skip


def check_round_trip(name: str, some: list[Acl]) -> AclsWritten:
    """Check that the text and the losses together are exactly ``some``."""
    written = FORMATS[name].write(some)
    lost = [loss.acl for loss in written.losses]
    kept = FORMATS[name].read(written.text)
    assert Counter([*kept.acls, *lost]) == Counter(set(some))
    assert kept.losses == ()
    assert FORMATS[name].write(some[::-1]).text == written.text
    assert kept.scope is None or all(map(kept.scope.includes, kept.acls))
    if kept.acls:
        assert detect_format(written.text, SUFFIXES.get(name, ".yaml")).name == name
        assert detect_format(written.text, "").name == name
    return written


@pytest.mark.parametrize("name", FORMATS)
@given(some=st.lists(acls(unknown_codes=True) | any_acls | creatable, max_size=8))
def test_written_text_reads_back_except_for_named_losses(name: str, some: list[Acl]) -> None:
    check_round_trip(name, some)


@pytest.mark.parametrize(("name", "lost"), [
    ("yaml", 0), ("json", 0), ("json-lines", 0), ("listing", 0), ("zookeeper", 0), ("strimzi", 245),
    ("kafka-gitops", 0), ("terraform", 0),
    ("julie", 126),
])  # fmt: skip
def test_1751_acls_of_a_real_broker_read_back(name: str, lost: int, real_log_dir: Path) -> None:
    some = list(read_listing((real_log_dir / "acls-list.txt").read_text(encoding="utf-8")))
    assert len(some) == 1751
    assert len(check_round_trip(name, some).losses) == lost


INVALID = "Kafka does not accept such an ACL: Invalid"
UNKNOWN = "kafka-acls shows the codes of other Kafka versions as UNKNOWN"

NEWER_OPERATION = acl(operation=99)
NEWER_PATTERN = acl(pattern=99)
NEWER_TYPE = Acl(99, "t", 3, "User:a", "*", 3, 3)
NEWER_PERMISSION = Acl(2, "t", 3, "User:a", "*", 3, 99)
FILTER = acl(operation="ANY")
NO_TYPE = acl("alice")
OTHER_CLUSTER = Acl(4, "c", 3, "User:a", "*", 3, 3)
PREFIXED_CLUSTER = acl(cluster=True, pattern="PREFIXED")
NO_NAME = acl(topic="")


@pytest.mark.parametrize(("name", "lost", "reason"), [
    ("yaml", NEWER_OPERATION, f"{INVALID} operation UNKNOWN"),
    ("yaml", NEWER_PATTERN, f"{INVALID} patternType UNKNOWN"),
    ("yaml", NEWER_TYPE, f"{INVALID} resourceType UNKNOWN"),
    ("yaml", NEWER_PERMISSION, f"{INVALID} permissionType UNKNOWN"),
    ("yaml", FILTER, f"{INVALID} operation ANY"),
    ("yaml", NO_TYPE, "no colon is present"),
    ("yaml", OTHER_CLUSTER, "The only valid name for the CLUSTER resource is kafka-cluster"),
    ("yaml", NO_NAME, "Invalid empty resource name"),
    ("json", NEWER_OPERATION, f"{INVALID} operation UNKNOWN"),
    ("listing", NEWER_OPERATION, UNKNOWN),
    ("listing", NEWER_TYPE, UNKNOWN),
    ("listing", FILTER, UNKNOWN),
    ("listing", acl(topic="a\nb"), "a listing cannot contain a line break in a name"),
    ("zookeeper", acl(group="a/b"), "a znode's name cannot contain /"),
    ("zookeeper", NO_TYPE, "expected a principal TYPE:NAME, with a colon"),
    ("zookeeper", NEWER_OPERATION, "Kafka's code 99 has no name as an operation in ZooKeeper"),
    ("zookeeper", NEWER_PERMISSION, "Kafka's code 99 has no name as a permission type"),
    ("listing", acl("User:a, host=b"), "in a listing, `, host=` ends the principal"),
    ("strimzi", NEWER_OPERATION, f"{INVALID} operation UNKNOWN"),
    ("strimzi", acl("User:ANONYMOUS"), "principals are User:NAME and User:CN=NAME"),
    ("strimzi", acl("User:*"), "principals are User:NAME and User:CN=NAME"),
    ("strimzi", acl("Group:a"), "principals are User:NAME and User:CN=NAME"),
    ("strimzi", acl("User:CN=a,O=b"), "principals are User:NAME and User:CN=NAME"),
    ("strimzi", acl("User:a_b"), "principals are User:NAME and User:CN=NAME"),
    ("strimzi", acl("User:a\n"), "principals are User:NAME and User:CN=NAME"),
    ("strimzi", acl("User:CN=usual"), "the KafkaUser usual is needed for the ACLs of User:usual"),
    ("strimzi", acl(user="User:b"), "Strimzi has no rules for USER"),
    ("strimzi", acl("User:a", "DESCRIBE", delegation_token="x"), "no rules for DELEGATION_TOKEN"),
    ("strimzi", acl(operation="TWO_PHASE_COMMIT"), "does not know the operation TWO_PHASE_COMMIT"),
    ("strimzi", PREFIXED_CLUSTER, "Strimzi's rules for the cluster are literal"),
    ("kafka-gitops", NEWER_PATTERN, f"{INVALID} patternType UNKNOWN"),
    ("kafka-gitops", acl(user="User:b"), "kafka-gitops does not know the resource type USER"),
    ("kafka-gitops", acl(operation="CREATE_TOKENS"), "not know the operation CREATE_TOKENS"),
    ("kafka-gitops", acl(operation="TWO_PHASE_COMMIT"), "the operation TWO_PHASE_COMMIT"),
    ("terraform", NEWER_PERMISSION, f"{INVALID} permissionType UNKNOWN"),
    ("terraform", acl(user="User:b"), "provider-kafka does not know the resource type USER"),
    ("terraform", acl(operation="TWO_PHASE_COMMIT"), "the operation TWO_PHASE_COMMIT"),
    ("terraform", acl(topic="e\u0301"), "Unicode's normalization form C"),
    ("terraform", acl(topic="\ufeffx"), "Terraform removes a byte order mark"),
    ("julie", NEWER_OPERATION, f"{INVALID} operation UNKNOWN"),
    ("julie", acl(deny=True), "Julie has no rules that deny"),
    ("julie", acl(operation="TWO_PHASE_COMMIT"), "not know the operation TWO_PHASE_COMMIT"),
    ("julie", acl(topic="a{{b"), "Julie reads names with {{, {% or {# as templates"),
    ("julie", acl(topic="a\nb"), "Julie's templates change line breaks in names"),
])  # fmt: skip
def test_acl_that_a_format_cannot_say_is_a_loss(name: str, lost: Acl, reason: str) -> None:
    usual = [acl("User:usual", operation, topic="other") for operation in ("WRITE", "DESCRIBE")]
    written = FORMATS[name].write([*usual, lost])
    assert set(FORMATS[name].read(written.text).acls) == set(usual)
    (loss,) = written.losses
    assert loss.acl == lost
    assert reason in loss.reason


UNUSUAL = (
    acl(deny=True, pattern="PREFIXED"), acl(host="0:0:0:0:0:0:0:1"), acl(topic="*"),
    acl(pattern="PREFIXED", topic="*"), acl(host=""), acl(operation="CLUSTER_ACTION"),
    acl("User:CN=b"),
)  # fmt: skip
OTHER_PRINCIPALS = (
    acl("User:ANONYMOUS"), acl("User:*"), acl("Group:a"), acl("User:CN=ü, O=b"), acl(":"),
)  # fmt: skip
NEW = (
    acl(user="User:a"), acl(operation="DESCRIBE_TOKENS"), acl(operation="TWO_PHASE_COMMIT"),
    acl(delegation_token="x"), acl(cluster=True, pattern="PREFIXED"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "kept"), [
    *product(("yaml", "json", "json-lines", "listing"), (*UNUSUAL, *OTHER_PRINCIPALS, *NEW)),
    *product(("zookeeper",), (*UNUSUAL, *OTHER_PRINCIPALS)),
    *product(("strimzi",), UNUSUAL),
    *product(("julie",), (*UNUSUAL[1:], *OTHER_PRINCIPALS, *NEW[:2], *NEW[3:])),
    *product(("kafka-gitops", "terraform"), (*UNUSUAL, *OTHER_PRINCIPALS, *NEW[3:])),
    ("terraform", acl(topic="${x}%{y}$${z}%%%{~\u00e9")),
])  # fmt: skip
def test_unusual_acl_is_written(name: str, kept: Acl) -> None:
    written = FORMATS[name].write([kept])
    assert written.losses == ()
    assert FORMATS[name].read(written.text).acls == (kept,)


def test_unknown_code_in_a_listing_is_read_and_named() -> None:
    text = (
        "Current ACLs for resource "
        "`ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`:\n"
        "\t(principal=User:a, host=*, operation=UNKNOWN, permissionType=DENY)\n"
    )
    unknown = acl(operation=0, deny=True)
    read = FORMATS["listing"].read(text)
    assert read.acls == (unknown,)
    assert read.losses == (Loss(unknown, UNKNOWN),)


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


@pytest.mark.parametrize(("text", "expected"), [
    (TEXT[::-1].replace("ETIRW", "ETIWR", 1)[::-1],
     "line 8, column 23: acls[1].operation[1]: unknown Operation 'RWITE' (did you mean " "WRITE?)"),
    (TEXT.replace("TOPIC", "TOPC"),
     "line 5, column 20: acls[0].resource_type: unknown ResourceType 'TOPC' (did you mean "
     "TOPIC?)"),
    (TEXT.replace("ALLOW", "PERMIT"),
     "line 4, column 22: acls[0].permission_type: unknown PermissionType 'PERMIT': "
     "expected one of DENY, ALLOW"),
    (TEXT.replace("operation", "operaton"),
     "line 3, column 15: acls[0]: unknown key 'operaton' (did you mean operation?): "
     "expected one of principal, "),
    (TEXT.replace(":b", ":a"), "line 7, column 5: acls[1]: repeats acls[0]: "),
    (TEXT.replace("    resource_name: é\n", ""),
     "line 2, column 5: acls[0]: missing key 'resource_name'"),
    (TEXT.replace("name: é", "name:\n      [x]"),
     "line 6, column 5: acls[0].resource_name: expected text in quotes, found list"),
    (TEXT + "manages: []\n", "line 12, column 10: manages: expected at least one entry"),
    (TEXT + "manages: [{principal: User:a}, {}]\n",
     "line 12, column 32: manages[1]: expected at least one field"),
    ("x: 1\n" + TEXT, "line 1, column 4: document: unknown key 'x': expected one of acls"),
    ("a.b: 1\n" + TEXT, "line 1, column 6: document: unknown key 'a.b': expected one of"),
    ("[]", "document: expected a mapping, found list"),
    ("manages: [{}]", "document: missing key 'acls'"),
    ("acls: [", "line 2: "),
    ("? [a]\n: 1\n", "line 1: "),
])  # fmt: skip
def test_error_names_line_and_column(text: str, expected: str) -> None:
    assert read_error(text).startswith(expected)


def test_error_in_json_names_line_and_column() -> None:
    entry = {
        "principal": "User:a", "operation": "RAED", "permission_type": "ALLOW",
        "resource_type": "TOPIC", "resource_name": "t",
    }  # fmt: skip
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
