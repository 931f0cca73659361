"""Write the other results of a run: the lines of the console, and ``commands.sh``."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from authorizerd.acl.model import Acl
from authorizerd.acl.text.kafka_acls import entry_arguments
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.replay.ingest.logs import describe_stopped
from authorizerd.replay.text import format_count
from authorizerd.replay.usage.report import UsageReport

_OPENING: Final = """\
set -eu
if [ $# -eq 0 ]; then
    echo "usage: sh $0 --bootstrap-server HOST:PORT [--command-config FILE]" >&2
    exit 2
fi
: "${KAFKA_ACLS:=kafka-acls}" # or kafka-acls.sh, or authorizerd acls
"""


def summary(report: UsageReport) -> Iterator[str]:
    """Yield the lines of the console, without newlines."""
    window, acls, suggestions = report.window, report.acls, report.suggestions
    yield escape_unprintable(
        f"{format_count(acls.acls, 'ACL')} of {acls.source}, "
        f"{format_count(window.tuples, 'tuple')} of "
        f"{format_count(window.allowed_events, 'allowed event')} and "
        f"{format_count(window.denied_events, 'denied event')}"
    )
    yield f"window: {window.begins_at} to {window.ends_at}"
    yield f"allowed decisions were logged from {window.allowed_first_at} to " + (
        window.allowed_last_at
    )
    yield from (f"warning: {line}" for line in describe_stopped(report.logs))
    yield from acls.describe_unknown()
    for reason, count in sorted(report.not_evaluated.items()):
        yield f"not evaluated: {format_count(count.events, 'event')} ({reason})"
    if report.disagreeing.events:
        yield (
            f"decided differently by these ACLs than recorded: "
            f"{format_count(report.disagreeing.events, 'event')}"
        )
    denials = sum(item.acl.permission_type != "ALLOW" for item in report.unused)
    yield (
        f"used: {len(report.used):,}; never used: {len(report.unused) - denials:,} ALLOW, "
        f"{denials:,} DENY"
    )
    for age, words in (
        ("added_within", "added during or after the window"),
        ("age_unknown", "of unknown age"),
    ):
        yield f"not judged, {words}: {len(report.not_judged[age]):,}"
    yield (
        f"suggested: {format_count(len(suggestions.removals), 'removal')}, "
        f"{format_count(len(suggestions.narrowings), 'narrowing')}"
    )
    if suggestions.left_out:
        yield f"not suggested, with reasons in usage.json: {len(suggestions.left_out):,}"
    if suggestions.proof is not None:
        yield (
            f"proof: evaluated on {format_count(suggestions.proof.tuples, 'tuple')}, the suggested "
            "ACLs change no decision"
        )


def script_comments(report: UsageReport) -> tuple[str, ...]:
    """Return the comments at the top of ``commands.sh``."""
    window, acls = report.window, report.acls
    return (
        "Suggested from recorded traffic. Read usage.json before you run this script.",
        f"ACLs: {acls.source} ({acls.digest})",
        f"Allowed decisions recorded: {window.allowed_first_at} to {window.allowed_last_at}",
        "The script removes no DENY. A grant that is used less often than that may look unused.",
    )


def script(comments: Iterable[str], before: Collection[Acl], after: Collection[Acl]) -> str:
    """Return a script that adds the ACLs only in ``after``, then removes those only in ``before``.

    It stops at the first failure, and passes its own arguments (the cluster's address and the
    login) to every command.
    """
    old, new = set(before), set(after)
    added, removed = (acl for acl in after if acl not in old), (a for a in before if a not in new)
    lines = ["#!/bin/sh", *(f"# {escape_unprintable(comment)}" for comment in comments)]
    lines += _OPENING.splitlines()
    lines += _section("Add the narrower grants before removing the wide ones", ["--add"], added)
    lines += _section("Remove the wide and the unused grants", ["--remove", "--force"], removed)
    return "\n".join(lines) + "\n"


def _section(title: str, flags: list[str], acls: Iterable[Acl]) -> list[str]:
    lines = [f'$KAFKA_ACLS "$@" {shlex.join([*flags, *entry_arguments(acl)])}' for acl in acls]
    return ["", f"# {title}", *(lines or ["# none"])]
