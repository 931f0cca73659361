"""The report of policy tests for people: one line per test, and for a failed one the difference.

**Invariant:** no name in the ACLs or in a file can make a terminal obey it: unprintable characters
are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from authorizerd.acl.explanation.description import ANY_SERVER, describe_command
from authorizerd.acl.explanation.model import AclChange
from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.printable import escape_unprintable
from authorizerd.cli.policy.results import (
    Reason,
    Result,
    count_principals,
    describe_reason,
    describe_unknown_key,
)

DescribeChange: TypeAlias = Callable[[AclChange], str]
"""Return the line that proposes a change of ACLs."""


def propose_command(change: AclChange, server: str = ANY_SERVER) -> str:
    """Return the line with the kafka-acls command of a change.

    Args:
        server: the value of ``--bootstrap-server``.
    """
    return f"change:   {describe_command(change, server)}"


def describe_result(result: Result, propose: DescribeChange) -> Iterator[str]:
    """Yield the line of a test, and for a failed one what was expected and found."""
    test = result.test
    if result.passed:
        yield escape_unprintable(f"ok    {test.title}")
        for note in result.notes:
            yield escape_unprintable(f"      note:     {note}")
        return
    yield escape_unprintable(f"FAIL  {test.title}")
    for line in describe_failure(result, propose):
        yield f"      {line}"


def describe_failure(result: Result, propose: DescribeChange = propose_command) -> Iterator[str]:
    """Yield what a failed test expected and what was found, without unprintable characters."""
    test = result.test
    for line in _describe_failure(result):
        yield escape_unprintable(line)
    for note in result.notes:
        yield escape_unprintable(f"note:     {note}")
    for change in result.changes:
        yield escape_unprintable(propose(change))
    yield escape_unprintable(f"at {test.source}:{test.line}")


def _describe_failure(result: Result) -> Iterator[str]:
    yield f"expected: {result.expected}"
    counted = count_principals(result)
    if counted is not None:
        yield f"found:    {counted}"
    for reason in result.reasons:
        yield from _describe_reason(reason)
    if result.left_out:
        yield f"found:    {result.left_out} more"
    for key in result.unknown:
        yield f"unknown:  {describe_unknown_key(key)}"


def _describe_reason(reason: Reason) -> Iterator[str]:
    yield f"found:    {reason.text}"
    yield f"because:  {describe_reason(reason)}"
    for text in reason.near_misses:
        yield f"near:     {text}"


def summarize(results: Sequence[Result]) -> str:
    """Return the line that ends a report."""
    failed = sum(not each.passed for each in results)
    counted = f"{count_of(len(results), 'test')}: {len(results) - failed} passed, {failed} failed"
    return f"{counted}{describe_undecided(results)}"


def describe_undecided(results: Sequence[Result]) -> str:
    """Return how many of the failed tests depend on unknown settings, or an empty text."""
    undecided = sum(bool(each.unknown) for each in results)
    verb = "depends" if undecided == 1 else "depend"
    return f", {undecided} of which {verb} on unknown settings" if undecided else ""
