"""The lines that the console shows after a run; ``usage.json`` has all results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from authorizerd.acl.printable import escape_unprintable
from authorizerd.replay.text import format_count
from authorizerd.replay.usage.report import NOT_IN_FORCE, UsageReport


def summary(report: UsageReport) -> Iterator[str]:
    """Yield the lines, without newlines."""
    window, acls = report.window, report.acls
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
    for age, key in NOT_IN_FORCE.items():
        yield f"not judged, {age.value}: {len(report.not_judged[key]):,}"
    yield from _suggested(report)


def _suggested(report: UsageReport) -> Iterator[str]:
    suggestions = report.suggestions
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


def script_comments(report: UsageReport) -> Sequence[str]:
    """Return the comments at the top of ``commands.sh``."""
    window, acls = report.window, report.acls
    return (
        "Suggested from recorded traffic. Read usage.json before you run this script.",
        f"ACLs: {acls.source} ({acls.digest})",
        f"Allowed decisions recorded: {window.allowed_first_at} to {window.allowed_last_at}",
        "The script removes no DENY. A grant that is used less often may look unused.",
    )
