"""Check a plan by policy tests, which judge the ACLs before and after the plan.

What judges them is imported once there are tests, so that a plan without them starts quickly.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins

from authorizerd.acl.explanation.model import AclChange
from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.plan.document import PlanCheck
from authorizerd.acl.plan.names import has_known_codes, name_acl
from authorizerd.acl.printable import escape_unprintable
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.cli.acl_source import AclSource
from authorizerd.cli.change.traffic import Checked

if TYPE_CHECKING:
    from authorizerd.cli.policy.results import Result


def check_tests(files: Sequence[Path], source: AclSource, after: AclSnapshot) -> Checked | None:
    """Run the policy tests of these files. The plan breaks them if one fails after it.

    Return None without files.

    Raises:
        FaultyFileError: a file has faults.
    """
    if not files:
        return None
    from authorizerd.cli.policy.document import read_policy_files
    from authorizerd.cli.policy.report import describe_undecided
    from authorizerd.cli.policy.results import run_tests

    tests = read_policy_files(files)
    results_before, results_after = (
        list(run_tests(tests, snapshot, source.settings, clock=time.monotonic))
        for snapshot in (source.snapshot, after)
    )
    failed = [each for each in results_after if not each.passed]
    broken = sum(
        earlier.passed and not later.passed
        for earlier, later in zip(results_before, results_after, strict=True)
    )
    summary = (
        f"{count_of(len(tests), 'policy test')} after this plan: {len(tests) - len(failed)} "
        f"passed, {len(failed)} failed"
    )
    if failed:
        summary += f", {broken} of them because of it{describe_undecided(results_after)}"
    result = PlanCheck(
        name="tests",
        breaks=bool(failed),
        summary=summary,
        counts={
            "tests": len(tests),
            "failed_before": sum(not each.passed for each in results_before),
            "failed_after": len(failed),
        },
        broken=tuple(map(_describe_broken, failed)),
        notes=tuple(_find_notes(results_before, results_after)),
    )
    return Checked(result, tuple(_describe(results_before, results_after, result)))


def _describe_broken(result: Result) -> str:
    test = result.test
    found = [f"found {'; '.join(each.text for each in result.reasons)}"] if result.reasons else []
    found += [f"unknown {key}" for key in result.unknown]
    return escape_unprintable(f"{test.source}:{test.line}: {test.title}: {', '.join(found)}")


def _find_notes(before: list[Result], after: list[Result]) -> Iterator[str]:
    """Yield the notes of passed tests, which prove less than they seem, before and after the plan.

    A plan may take away the last ACL of a principal. So what is noted only after it is intended.
    """
    for earlier, later in zip(before, after, strict=True):
        test = later.test
        for note in later.notes:
            if later.passed and note in earlier.notes:
                yield escape_unprintable(f"{test.source}:{test.line}: {test.title}: {note}")


def _describe(before: list[Result], after: list[Result], result: PlanCheck) -> Iterator[str]:
    from authorizerd.cli.policy.report import describe_result

    for earlier, later in zip(before, after, strict=True):
        if later.passed:
            continue
        yield from describe_result(later, _propose)
        if not earlier.passed:
            yield "      it fails without this plan, too"
    yield from (f"note: {note}" for note in result.notes)


def _propose(change: AclChange) -> str:
    """Return the line about what to change in the files, since the plan undoes any other change."""
    acl = change.acl
    verb = "add to" if change.adds else "remove from"
    named = json.dumps(to_builtins(name_acl(acl))) if has_known_codes(acl) else str(acl)
    return f"change:   {verb} the desired ACLs: {named}"
