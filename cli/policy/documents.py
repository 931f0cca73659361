"""The JSON document of ``authorizerd test --json``, which docs/policy-tests.md describes.

**Invariant:** programs rely on the names of fields: a change only adds fields. Operations and types
have Kafka's names in capitals.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from authorizerd.acl.decision import get_acl
from authorizerd.acl.model import Operation, PatternType, ResourceType
from authorizerd.cli.acl_source import AclSource
from authorizerd.cli.policy.results import Reason, Result
from authorizerd.cli.questions.documents import Source, new_source
from authorizerd.protocol.decisions.acl_answers import AclAnswer, make_acl_answer
from authorizerd.protocol.decisions.explanations import ChangeAnswer, make_change_answer


class FindingDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What contradicts a test.

    Attributes:
        principal: null: every principal that no ACL names.
        pattern_type: LITERAL, or PREFIXED for names that begin with ``resource_name``.
        example: one of the names.
        host: a host for which it holds; null: it holds for every host, or for an unknown one.
        rule: as in the audit log.
        acl: the ACL that decides, or null.
        near_misses: sentences about what almost allows it.
        unknown_settings: the settings that are unknown, and may make it false.
    """

    text: str
    allowed: bool
    principal: str | None
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    example: str
    rule: str
    acl: AclAnswer | None
    near_misses: tuple[str, ...]
    unknown_settings: tuple[str, ...]


class OneTest(msgspec.Struct, frozen=True, kw_only=True):
    """One test.

    ``count`` is the number of all findings; the first of them are listed. ``notes`` say why the
    test may prove less than it seems. After ``changes``, if there are any, it passes.
    ``unknown_settings`` are those on which the result depends; then the test fails.
    """

    file: str
    line: int
    name: str
    assertion: str
    passed: bool
    count: int
    findings: tuple[FindingDocument, ...]
    notes: tuple[str, ...]
    changes: tuple[ChangeAnswer, ...]
    unknown_settings: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True):
    """A planned change: how many ACLs its files remove and add, and how many there are then."""

    removed: int
    added: int
    acls: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All tests. ``source`` says where the ACLs come from; ``plan`` is null without a change."""

    passed: int
    failed: int
    source: Source
    plan: Plan | None
    tests: tuple[OneTest, ...]


def new_report(
    results: Sequence[Result], source: AclSource, plan: Plan | None, server: str
) -> Report:
    """Return the document of the results.

    Args:
        server: the value of ``--bootstrap-server`` in kafka-acls lines.
    """
    failed = sum(not each.passed for each in results)
    return Report(
        passed=len(results) - failed,
        failed=failed,
        source=new_source(source),
        plan=plan,
        tests=tuple(_new_test(each, server) for each in results),
    )


def _new_test(result: Result, server: str) -> OneTest:
    test = result.test
    return OneTest(
        file=test.source,
        line=test.line,
        name=test.title,
        assertion=result.expected,
        passed=result.passed,
        count=result.verdict.count,
        findings=tuple(map(_new_finding, result.reasons)),
        notes=result.notes,
        changes=tuple(make_change_answer(each, server) for each in result.changes),
        unknown_settings=result.unknown,
    )


def _new_finding(reason: Reason) -> FindingDocument:
    finding = reason.finding
    question = finding.question
    pattern_type = PatternType.PREFIXED if finding.names.is_prefix else PatternType.LITERAL
    acl = get_acl(reason.rule)
    return FindingDocument(
        text=reason.text,
        allowed=finding.is_allowed,
        principal=finding.principal,
        host=question.host,
        operation=Operation(question.operation).name,
        resource_type=ResourceType(question.resource_type).name,
        resource_name=finding.names.text,
        pattern_type=pattern_type.name,
        example=question.resource_name,
        rule=str(reason.rule),
        acl=None if acl is None else make_acl_answer(acl),
        near_misses=reason.near_misses,
        unknown_settings=reason.unknown,
    )
