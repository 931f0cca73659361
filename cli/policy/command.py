"""``authorizerd test FILE…``: run the policy tests of YAML files against ACLs.

Exit codes: 0 all tests pass, 1 a fault in a file or in the ACLs, 2 invalid arguments, 3 a test
fails.

**Invariant:** the command never passes without having run a test.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from authorizerd.acl.explanation.description import ANY_SERVER
from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.policy.wording import write_assertion
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.cli.acl_file import read_acl_file
from authorizerd.cli.acl_source import AclSource, open_source
from authorizerd.cli.policy.document import PolicyTest, read_policy_files
from authorizerd.cli.policy.documents import Plan, new_report
from authorizerd.cli.policy.faults import FaultyFileError
from authorizerd.cli.policy.junit import write_junit
from authorizerd.cli.policy.planned import apply_plan
from authorizerd.cli.policy.report import describe_result, propose_command, summarize
from authorizerd.cli.policy.results import Result, run_tests
from authorizerd.cli.questions.answers import print_document, print_lines
from authorizerd.cli.transfer.whole_file import FILE_MODE
from authorizerd.daemon.errors import StartError

EXIT_FAULT: Final = 1
EXIT_FAILED: Final = 3


def run_policy_tests(arguments: argparse.Namespace) -> int:
    """Run the tests, print a report, and return the exit code.

    Raises:
        StartError, ConfigurationError: the ACLs cannot be read, or no test is selected.
        MetadataLogError: the log is damaged.
    """
    try:
        tests = read_policy_files(arguments.files)
    except FaultyFileError as error:
        sys.stderr.write(f"{error}\n")
        faults = count_of(error.count, "fault")
        sys.stderr.write(f"authorizerd: {faults} in policy files; no test was run\n")
        return EXIT_FAULT
    tests = _select(tests, arguments.select)
    if arguments.list:
        _write_lines(f"{test.source}:{test.line}: {_entitle(test)}" for test in tests)
        return 0
    source = open_source(arguments)
    snapshot, plan = _apply_plan(source, arguments)
    server = arguments.bootstrap_server or ANY_SERVER
    begun = time.time()
    results: list[Result] = []
    for result in run_tests(tests, snapshot, source.settings, clock=time.monotonic):
        results.append(result)
        if not arguments.json:
            _write_lines(describe_result(result, partial(propose_command, server=server)))
    if arguments.json:
        print_document(new_report(results, source, plan, server))
    else:
        _write_lines([summarize(results), *source.describe(), *_describe_plan(plan)])
    if arguments.junit is not None:
        _write_file(arguments.junit, write_junit(results, begun))
    return 0 if all(each.passed for each in results) else EXIT_FAILED


def _select(tests: list[PolicyTest], words: Sequence[str]) -> list[PolicyTest]:
    """Return the tests whose title or assertion contains one of the words; all without words.

    Raises:
        StartError: there is no such test.
    """
    if not words:
        return tests
    selected = [test for test in tests if any(word in _entitle(test) for word in words)]
    if not selected:
        raise StartError(f"-k: expected a part of a test's name, found {', '.join(words)}")
    return selected


def _entitle(test: PolicyTest) -> str:
    """Return the name of a test, and its assertion if this is another text."""
    assertion = write_assertion(test.assertion)
    return test.title if test.title == assertion else f"{test.title} ({assertion})"


def _apply_plan(
    source: AclSource, arguments: argparse.Namespace
) -> tuple[AclSnapshot, Plan | None]:
    """Return the ACLs to test, and the planned change, if there is one."""
    if not (arguments.added or arguments.removed):
        return source.snapshot, None
    added, removed = (
        [acl for path in paths for acl in read_acl_file(path)]
        for paths in (arguments.added, arguments.removed)
    )
    snapshot = apply_plan(source.snapshot, removed=removed, added=added)
    return snapshot, Plan(len(removed), len(added), len(snapshot.acls))


def _describe_plan(plan: Plan | None) -> Iterator[str]:
    if plan is not None:
        yield f"after a planned change: {plan.removed} removed, {plan.added} added"


def _write_lines(lines: Iterable[str]) -> None:
    print_lines(lines)
    sys.stdout.flush()


def _write_file(path: Path, data: bytes) -> None:
    try:
        with open(path, "wb", opener=partial(os.open, mode=FILE_MODE)) as file:
            file.write(data)
    except OSError as error:
        raise StartError(f"--junit: {path}: {error.strerror or error}") from error
