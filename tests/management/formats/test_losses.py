"""What each format cannot say, and the reason that it gives."""

from __future__ import annotations

from itertools import product

import pytest

from authorizerd.acl.model import Acl
from authorizerd.management.formats.catalogue import FORMATS
from authorizerd.management.formats.model import Loss
from tests.support.acls import acl

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
