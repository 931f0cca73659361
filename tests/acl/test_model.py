"""The model: Kafka's codes and their members."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, Code, Operation, PatternType, PermissionType, ResourceType


@pytest.mark.parametrize("kind", [ResourceType, PatternType, Operation, PermissionType])
@given(code=st.integers(-128, 127))
def test_every_code_reads_as_a_member(kind: type[Code], code: int) -> None:
    """An unknown code reads as UNKNOWN, never as an error."""
    read = kind.read(code)
    assert read == (code if 0 <= code < len(kind) else 0)
    assert kind.named(read.name) is read


def test_the_codes_are_kafkas() -> None:
    """A wrong code would turn one right into another."""
    assert " ".join(operation.name for operation in Operation) == (
        "UNKNOWN ANY ALL READ WRITE CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS "
        "ALTER_CONFIGS IDEMPOTENT_WRITE CREATE_TOKENS DESCRIBE_TOKENS TWO_PHASE_COMMIT"
    )
    assert " ".join(kind.name for kind in ResourceType) == (
        "UNKNOWN ANY TOPIC GROUP CLUSTER TRANSACTIONAL_ID DELEGATION_TOKEN USER"
    )
    assert (PatternType.LITERAL, PatternType.PREFIXED) == (3, 4)
    assert (PermissionType.DENY, PermissionType.ALLOW) == (2, 3)


def test_raw_codes_are_kept_and_read_as_unknown() -> None:
    """Codes of later versions can be written back unchanged."""
    acl = Acl(99, "t", -5, "User:a", "*", 77, 55)
    assert (acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type) == (
        99,
        -5,
        77,
        55,
    )
    assert str(acl) == (
        "StandardAcl[resourceType=UNKNOWN, resourceName=t, patternType=UNKNOWN, principal=User:a, "
        "host=*, operation=UNKNOWN, permissionType=UNKNOWN]"
    )


def test_an_unknown_name_is_none() -> None:
    """Names are exact, and belong to the enumeration itself."""
    assert Operation.named("read") is None
    assert Operation.named("TOPIC") is None
    assert Operation.named("_value2member_map_") is None
