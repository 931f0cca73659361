"""The block ``manages`` of documents, for plans."""

from __future__ import annotations

from typing import Any

import pytest

from authorizerd.management.formats.catalogue import FORMATS
from authorizerd.management.formats.document import read_managed
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.plan.selector import Managed
from tests.support.acls import acl

TEXT = """
manages:
  - principal_prefix: "User:team-a-"
  - {resource_type: topic, resource_name: orders, pattern_type: match}
  - {resource_type: Group, resource_name_prefix: team-a., operation: describe_configs}
acls: []
"""


def test_entries_are_read() -> None:
    read = FORMATS["yaml"].read(TEXT)
    assert read.scope is not None
    assert read.scope.entries == (
        Managed(principal_prefix="User:team-a-"),
        Managed(resource_type="TOPIC", resource_name="orders", pattern_type="MATCH"),
        Managed(
            resource_type="GROUP", resource_name_prefix="team-a.", operation="DESCRIBE_CONFIGS"
        ),
    )
    assert read.scope.includes(acl("User:team-a-1"))
    assert not read.scope.includes(acl("User:other"))


def test_document_without_the_block_manages_everything() -> None:
    assert FORMATS["json"].read('{"acls": []}').scope is None


@pytest.mark.parametrize(
    ("manages", "place", "reason"),
    [
        ([], "manages", "expected at least one entry, found none"),
        (None, "manages", "expected a list of entries, found nothing"),
        ([{}], "manages[0]", "expected at least one field"),
        (["User:a"], "manages[0]", "expected a mapping, found str"),
        ([{"principals": "User:a"}], "manages[0]", "'principals' (did you mean principal?)"),
        ([{"principal": 1}], "manages[0].principal", "expected text in quotes, found int"),
        ([{"principal": "alice"}], "manages[0].principal", "expected Type:name"),
        ([{"resource_type": "QUEUE"}], "manages[0].resource_type", "unknown ResourceType"),
        ([{"resource_type": "ANY"}], "manages[0]", "Invalid enum value 'ANY'"),
        ([{"resource_name": "t"}], "manages[0]", "expected resource_type"),
        (
            [{"principal": "User:a"}, {"principal_prefix": ""}],
            "manages[1].principal_prefix", "found an empty one",
        ),
    ],
)  # fmt: skip
def test_invalid_entry_is_rejected(manages: Any, place: str, reason: str) -> None:  # noqa: ANN401
    with pytest.raises(AclTextError) as caught:
        read_managed({"manages": manages, "acls": []})
    assert caught.value.place == place
    assert reason in caught.value.reason
