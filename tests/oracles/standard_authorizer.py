"""Recorded cases with the answers of Kafka's StandardAuthorizer and AclControlManager.

``standard_authorizer.jsonl.xz`` is of Kafka 4.3.1. ``standard_authorizer_4_4.jsonl.xz`` is of 4.4.0
at its newest metadata.version, and its hosts are ranges and odd texts. Each line is a JSON object:
ACLs, requests and filters, or steps of creations and deletions, and the answers in ``expect``. ACLs
and filters are ``[resourceType, name, patternType, principal, host, operation, permission]``,
requests ``[principal, host, operation, resourceType, name]``.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
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


def acl_of(row: list[str]) -> Acl:
    return Acl(*_fields(row))


def filter_of(row: list[Any]) -> AclFilter:
    return AclFilter(*_fields(row))


def _fields(row: list[Any]) -> tuple[int, Any, int, Any, Any, int, int]:
    kind, name, pattern, principal, host, operation, permission = row
    return (
        ResourceType[kind], name, PatternType[pattern], principal, host,
        Operation[operation], PermissionType[permission],
    )  # fmt: skip


def question_of(row: list[str]) -> Question:
    host = host_address(row[1])
    assert host is not None
    return Question(row[0], host, Operation[row[2]], ResourceType[row[3]], row[4])
