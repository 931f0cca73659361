"""Validation, with Kafka's own texts."""

from collections.abc import Callable

import pytest

from authorizerd.acl.errors import InvalidAclError, UnsupportedAclError
from authorizerd.acl.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.releases import RULES_4_3, RULES_4_4, ReleaseRules, rules_for
from authorizerd.acl.validation import validate_filter, validate_new_acl, validate_resource


def creation(
    resource_type: int = ResourceType.TOPIC,
    name: str = "t",
    pattern_type: int = PatternType.LITERAL,
    principal: str = "User:a",
    operation: int = Operation.READ,
    permission_type: int = PermissionType.ALLOW,
    host: str = "*",
) -> Acl:
    return Acl(resource_type, name, pattern_type, principal, host, operation, permission_type)


@pytest.mark.parametrize(("validate", "given", "text"), [
    (validate_new_acl, creation(resource_type=0), "Invalid resourceType UNKNOWN"),
    (validate_new_acl, creation(resource_type=99), "Invalid resourceType UNKNOWN"),
    (validate_new_acl, creation(resource_type=1), "Invalid resourceType ANY"),
    (validate_new_acl, creation(pattern_type=1), "Invalid patternType ANY"),
    (validate_new_acl, creation(pattern_type=2), "Invalid patternType MATCH"),
    (validate_new_acl, creation(pattern_type=-7), "Invalid patternType UNKNOWN"),
    (validate_new_acl, creation(operation=1), "Invalid operation ANY"),
    (validate_new_acl, creation(operation=16), "Invalid operation UNKNOWN"),
    (validate_new_acl, creation(permission_type=1), "Invalid permissionType ANY"),
    (validate_new_acl, creation(permission_type=4), "Invalid permissionType UNKNOWN"),
    (validate_new_acl, creation(name=""), "Resource name should not be empty"),
    (validate_resource, creation(name="", operation=1), "Invalid empty resource name"),
    (validate_filter, AclFilter(resource_type=0), "Unknown patternFilter."),
    (validate_filter, AclFilter(resource_type=99), "Unknown patternFilter."),
    (validate_filter, AclFilter(pattern_type=0), "Unknown patternFilter."),
    (validate_filter, AclFilter(pattern_type=5, operation=0), "Unknown patternFilter."),
    (validate_filter, AclFilter(operation=0), "Unknown entryFilter."),
    (validate_filter, AclFilter(operation=-1), "Unknown entryFilter."),
    (validate_filter, AclFilter(permission_type=77), "Unknown entryFilter."),
    (validate_new_acl, creation(principal="*"),
     "Could not parse principal from `*` (no colon is present separating the principal type from"
     " the principal name)"),
    (validate_resource, creation(ResourceType.CLUSTER, "other"),
     "The only valid name for the CLUSTER resource is kafka-cluster"),
    (validate_resource, creation(ResourceType.CLUSTER, ""),
     "The only valid name for the CLUSTER resource is kafka-cluster"),
])  # fmt: skip
def test_invalid_acls_and_filters_are_refused_with_kafkas_text(
    validate: Callable[[object], None], given: object, text: str
) -> None:
    """A broker checks resources and filters, the controller new ACLs; some codes are unknown."""
    with pytest.raises(InvalidAclError) as error:
        validate(given)
    assert str(error.value) == text


@pytest.mark.parametrize(
    "acl",
    [
        creation(ResourceType.CLUSTER, "kafka-cluster", PatternType.PREFIXED),
        creation(principal=":"),
        creation(host=""),
        creation(host="not an address"),
        creation(name="no legal topic name!"),
        creation(operation=Operation.CREATE_TOKENS),
        creation(name="*", pattern_type=PatternType.PREFIXED),
    ],
)
def test_what_kafka_accepts_is_accepted(acl: Acl) -> None:
    """These look wrong, but Kafka accepts them."""
    validate_resource(acl)
    validate_new_acl(acl)


LEVEL = "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
BEFORE_RANGES = rules_for(RULES_4_4.releases, has_range_level=False)


@pytest.mark.parametrize(
    ("host", "rules", "text"),
    [
        ("", RULES_4_4, "Host pattern cannot be null or empty"),
        ("", BEFORE_RANGES, "Host pattern cannot be null or empty"),
        ("10.0.0.0/", RULES_4_4, "Invalid CIDR notation '10.0.0.0/': Could not parse [10.0.0.0/]"),
        ("10.0.0.0/8", BEFORE_RANGES, LEVEL),
        ("a/b", BEFORE_RANGES, LEVEL),
        ("10.1.2.3/8", RULES_4_4, None),
        ("not an address", RULES_4_4, None),
        ("*", BEFORE_RANGES, None),
        ("a/b", RULES_4_3, None),
        ("", RULES_4_3, None),
        ("", None, None),
    ],
)
def test_host_is_validated_as_by_the_release(
    host: str, rules: ReleaseRules | None, text: str | None
) -> None:
    """Kafka 4.3 checks no host. Kafka 4.4 creates ranges once metadata.version is 4.4-IV1."""
    error: InvalidAclError | None = None
    try:
        validate_new_acl(creation(host=host), rules)
    except InvalidAclError as raised:
        error = raised
    assert (error and str(error)) == text
    assert isinstance(error, UnsupportedAclError) == (text == LEVEL)


def test_filters_accept_every_known_code() -> None:
    """ANY, MATCH, and every code that can be stored."""
    for resource_type in range(1, 8):
        validate_filter(AclFilter(resource_type=resource_type))
    for pattern_type in range(1, 5):
        validate_filter(AclFilter(pattern_type=pattern_type))
    for operation in range(1, 16):
        validate_filter(AclFilter(operation=operation))
    for permission_type in range(1, 4):
        validate_filter(AclFilter(permission_type=permission_type))
