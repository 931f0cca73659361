"""Recorded cases with the answers of Kafka's StandardAuthorizer and AclControlManager.

``standard_authorizer.jsonl.xz`` is of Kafka 4.3.1. ``standard_authorizer_4_4.jsonl.xz`` is of 4.4.0
at its newest metadata.version, and its hosts are ranges and odd texts. Each line is a JSON object:
ACLs, requests and filters, or steps of creations and deletions, and the answers in ``expect``. ACLs
and filters are ``[resourceType, name, patternType, principal, host, operation, permission]``,
requests ``[principal, host, operation, resourceType, name]``.
"""

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from authorizerd.acl import model
from authorizerd.acl.hosts import host_address
from authorizerd.acl.index.builder import build
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.snapshot import (
    EMPTY_SNAPSHOT,
    AclSnapshot,
    apply_changes,
    at_offset,
    with_rules,
)

Case = dict[str, Any]
FILE = Path(__file__).with_name("standard_authorizer.jsonl.xz")
FILE_4_4 = Path(__file__).with_name("standard_authorizer_4_4.jsonl.xz")


@cache
def cases(file: Path) -> tuple[Case, ...]:
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        read = tuple(map(json.loads, lines))
    assert read, f"{file} has no case"
    return read


def decision_cases(file: Path = FILE) -> list[Case]:
    return [case for case in cases(file) if "mode" not in case]


def control_cases(file: Path = FILE) -> list[Case]:
    return [case for case in cases(file) if case.get("mode") == "control"]


def acl_of(row: list[str]) -> model.Acl:
    return model.Acl(*_fields(row))


def acl_id(number: int) -> bytes:
    """Return our id of the ACL to which Kafka gave a number."""
    return number.to_bytes(16, "big")


def number_acls(case: Case) -> dict[model.Acl, int]:
    """Return Kafka's number of each ACL: its first position in the list, counted from 1."""
    numbers: dict[model.Acl, int] = {}
    for number, row in enumerate(case["acls"], 1):
        numbers.setdefault(acl_of(row), number)
    return numbers


def load_acls(case: Case, numbers: dict[model.Acl, int], rules: ReleaseRules) -> AclSnapshot:
    """Load a case as Kafka did: in bulk, or one by one; then remove some."""
    added = [model.AclAdded(acl_id(number), acl) for acl, number in numbers.items()]
    one_by_one = case.get("load") == "add"
    snapshot = apply_changes(EMPTY_SNAPSHOT, added) if one_by_one else build(added)
    removed = [model.AclRemoved(acl_id(number)) for number in case.get("removeIds", ())]
    return with_rules(at_offset(apply_changes(snapshot, removed), 0), rules)


def filter_of(row: list[Any]) -> model.AclFilter:
    return model.AclFilter(*_fields(row))


def _fields(row: list[Any]) -> tuple[int, Any, int, Any, Any, int, int]:
    kind, name, pattern, principal, host, operation, permission = row
    return (
        model.ResourceType[kind], name, model.PatternType[pattern], principal, host,
        model.Operation[operation], model.PermissionType[permission],
    )  # fmt: skip


def question_of(row: list[str]) -> model.Question:
    host = host_address(row[1])
    assert host is not None
    return model.Question(row[0], host, model.Operation[row[2]], model.ResourceType[row[3]], row[4])
