"""``authorizerd test FILE…``: run the policy tests of YAML files against ACLs.

Exit codes: 0 all tests pass, 1 a fault in a file or in the ACLs, 2 invalid arguments, 3 a test
fails.

**Invariant:** the command never succeeds without running a test. Programs rely on the names of
fields in its JSON document, which docs/policy-tests.md describes: changes only add fields. The
JUnit XML has the elements of Jenkins' schema, and is well-formed whatever the ACLs contain.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import msgspec

from authorizerd.acl.decision import get_acl
from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import (
    Acl,
    AclAdded,
    AclRemoved,
    Change,
    Operation,
    PatternType,
    ResourceType,
)
from authorizerd.acl.snapshot import AclSnapshot, apply_changes
from authorizerd.acl.text.named_acl import name_acl
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acl_file import read_acl_file
from authorizerd.cli.acl_source import AclSource, SourceRequest, open_source
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import print_document, print_lines
from authorizerd.cli.policy.document import PolicyTest, read_policy_files
from authorizerd.cli.policy.faults import FaultyFileError
from authorizerd.cli.policy.results import (
    Reason,
    Result,
    describe_failure,
    describe_result,
    propose_command,
    run_tests,
    summarize,
)
from authorizerd.cli.transfer.text_place import FILE_MODE
from authorizerd.management.policy.wording import write_assertion
from authorizerd.protocol.decisions.explanations import make_change_answer

_SUITES_NAME: Final = "authorizerd test"
_FAILURE_TYPE: Final = "policy"
_HOST: Final = "localhost"


def write_junit(results: Sequence[Result], begun: float) -> bytes:
    root = ElementTree.Element("testsuites", {"name": _SUITES_NAME, **_totals(results)})
    # The schemas of JUnit's format require ISO 8601 without a zone.
    timestamp = datetime.fromtimestamp(begun, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    for number, (source, suite) in enumerate(groupby(results, lambda each: each.test.source)):
        _add_suite(root, number, source, list(suite), timestamp)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _add_suite(
    root: ElementTree.Element, number: int, source: str, results: Sequence[Result], timestamp: str
) -> None:
    attributes = {
        "id": str(number),
        "name": escape_unprintable(source),
        "timestamp": timestamp,
        "hostname": _HOST,
        "skipped": "0",
        **_totals(results),
    }
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    for result in results:
        _add_case(suite, result)


def _add_case(suite: ElementTree.Element, result: Result) -> None:
    test = result.test
    source = escape_unprintable(test.source)
    case = ElementTree.SubElement(
        suite,
        "testcase",
        name=escape_unprintable(test.title),
        classname=source,
        file=source,
        line=str(test.line),
        time=_seconds([result]),
    )
    if not result.passed:
        lines = list(describe_failure(result))
        failure = ElementTree.SubElement(
            case, "failure", type=_FAILURE_TYPE, message=f"{lines[0]}; {lines[1]}"
        )
        failure.text = "\n".join(lines)


def _totals(results: Sequence[Result]) -> dict[str, str]:
    failed = sum(not result.passed for result in results)
    return {
        "tests": str(len(results)),
        "failures": str(failed),
        "errors": "0",
        "time": _seconds(results),
    }


def _seconds(results: Sequence[Result]) -> str:
    return f"{sum(result.seconds for result in results):.6f}"


EXIT_FAULT: Final = 1
EXIT_FAILED: Final = 3


class TestRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of ``test``."""

    files: tuple[Path, ...]
    added: tuple[Path, ...]
    removed: tuple[Path, ...]
    select: tuple[str, ...]
    list: bool
    json: bool
    junit: Path | None
    source: SourceRequest


def run_policy_tests(request: TestRequest) -> int:
    try:
        tests = read_policy_files(request.files)
    except FaultyFileError as error:
        sys.stderr.write(f"{error}\n")
        faults = count_of(error.count, "fault")
        sys.stderr.write(f"authorizerd: {faults} in policy files; no test was run\n")
        return EXIT_FAULT
    tests = _select(tests, request.select)
    if request.list:
        _write_lines(f"{test.source}:{test.line}: {_entitle(test)}" for test in tests)
        return 0
    source = open_source(request.source)
    snapshot, plan = _apply_plan(source, request)
    begun = time.time()
    results: list[Result] = []
    for result in run_tests(tests, snapshot, source.settings, clock=time.monotonic):
        results.append(result)
        if not request.json:
            _write_lines(describe_result(result, partial(propose_command, server=source.server)))
    if request.json:
        print_document(new_report(results, source, plan))
    else:
        changed = []
        if plan is not None:
            changed = [f"after a planned change: {plan['removed']} removed, {plan['added']} added"]
        _write_lines([summarize(results), *source.describe(), *changed])
    if request.junit is not None:
        _write_file(request.junit, write_junit(results, begun))
    return 0 if all(each.passed for each in results) else EXIT_FAILED


def _select(tests: list[PolicyTest], words: Sequence[str]) -> list[PolicyTest]:
    """Return the tests whose title or assertion contains one of the words, or else all tests."""
    if not words:
        return tests
    selected = [test for test in tests if any(word in _entitle(test) for word in words)]
    if not selected:
        raise CommandError(f"-k: expected a part of a test's name, found {', '.join(words)}")
    return selected


def _entitle(test: PolicyTest) -> str:
    """Return the name of a test, plus its assertion if the two differ."""
    assertion = write_assertion(test.assertion)
    return test.title if test.title == assertion else f"{test.title} ({assertion})"


def _apply_plan(
    source: AclSource, request: TestRequest
) -> tuple[AclSnapshot, dict[str, int] | None]:
    if not (request.added or request.removed):
        return source.snapshot, None
    added, removed = (
        [acl for path in paths for acl in read_acl_file(path).acls]
        for paths in (request.added, request.removed)
    )
    snapshot = apply_change(source.snapshot, removed=removed, added=added)
    counts = {"removed": len(removed), "added": len(added), "acls": len(snapshot.acls)}
    return snapshot, counts


def apply_change(
    snapshot: AclSnapshot, *, removed: Iterable[Acl] = (), added: Iterable[Acl] = ()
) -> AclSnapshot:
    """Return ``snapshot`` without the removed ACLs, and then with the added ones.

    Adding a present ACL changes nothing, as in Kafka.

    Raises:
        CommandError: an ACL to remove is not present: the change was made for other ACLs, or has a
            typo, and a test of it would prove nothing.
    """
    ids = {acl: acl_id for acl_id, acl in snapshot.acls.items()}
    changes: list[Change] = []
    for acl in dict.fromkeys(removed):
        acl_id = ids.pop(acl, None)
        if acl_id is None:
            raise CommandError(f"--without: expected ACLs that are present, found {acl}")
        changes.append(AclRemoved(acl_id))
    changes += [AclAdded(derive_id(acl), acl) for acl in dict.fromkeys(added) if acl not in ids]
    return apply_changes(snapshot, changes)


def _write_lines(lines: Iterable[str]) -> None:
    print_lines(lines)
    sys.stdout.flush()


def _write_file(path: Path, data: bytes) -> None:
    try:
        with open(path, "wb", opener=partial(os.open, mode=FILE_MODE)) as file:
            file.write(data)
    except OSError as error:
        raise CommandError(f"--junit: {path}: {error.strerror or error}") from error


def new_report(
    results: Sequence[Result], source: AclSource, plan: Mapping[str, int] | None
) -> dict[str, object]:
    """Return the document of the results.

    Args:
        plan: the numbers of ACLs that a planned change removes and adds, and of ACLs afterwards;
            None without a change.
    """
    failed = sum(not result.passed for result in results)
    return {
        "passed": len(results) - failed,
        "failed": failed,
        "source": source.document,
        "plan": plan,
        "tests": [_describe_test(result, source.server) for result in results],
    }


def _describe_test(result: Result, server: str) -> dict[str, object]:
    test = result.test
    return {
        "file": test.source,
        "line": test.line,
        "name": test.title,
        "assertion": result.expected,
        "passed": result.passed,
        "count": result.verdict.count,  # counts all findings; only the first are listed
        "findings": [*map(_describe_reason, result.reasons)],
        "notes": result.notes,
        "changes": [make_change_answer(change, server) for change in result.changes],
        "unknown_settings": result.unknown,
    }


def _describe_reason(reason: Reason) -> dict[str, object]:
    finding = reason.finding
    question = finding.question
    pattern_type = PatternType.PREFIXED if finding.names.is_prefix else PatternType.LITERAL
    acl = get_acl(reason.rule)
    return {
        "text": reason.text,
        "allowed": finding.is_allowed,
        "principal": finding.principal,  # null: every principal that no ACL names
        "host": question.host,  # null: every host, or an unknown one
        "operation": Operation(question.operation).name,
        "resource_type": ResourceType(question.resource_type).name,
        "resource_name": finding.names.text,
        "pattern_type": pattern_type.name,
        "example": question.resource_name,
        "rule": str(reason.rule),
        "acl": None if acl is None else name_acl(acl),
        "near_misses": reason.near_misses,
        "unknown_settings": reason.unknown,
    }
