"""What the command says at its end, in few lines; the whole of it stands in ``usage.json``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from authorizerd.acl.printable import escape_unprintable
from authorizerd.replay.usage.report import UsageReport


def summary(report: UsageReport) -> Iterator[str]:
    """Yield lines without their ends."""
    window, acls = report.window, report.acls
    yield escape_unprintable(
        f"{acls.acls:,} ACLs of {acls.source}, {_counted(window.tuples, 'tuple')} of "
        f"{_counted(window.allowed_events, 'allowed event')} and "
        f"{_counted(window.denied_events, 'denied event')}"
    )
    yield f"window: {window.begins_at} to {window.ends_at}"
    yield f"allowed decisions were logged from {window.allowed_first_at} to " + (
        window.allowed_last_at
    )
    for reason, count in sorted(report.not_evaluated.items()):
        yield f"not evaluated: {_counted(count.events, 'event')} ({reason})"
    if report.disagreeing.events:
        yield (
            f"recorded otherwise than these ACLs decide: "
            f"{_counted(report.disagreeing.events, 'event')}"
        )
    denials = sum(item.acl.permission_type != "ALLOW" for item in report.unused)
    yield (
        f"used: {len(report.used):,}; never used: {len(report.unused) - denials:,} that allow, "
        f"{denials:,} that deny"
    )
    for key, found in report.not_judged.items():
        yield f"not judged, {key.replace('_', ' ')}: {len(found):,}"
    yield from _suggested(report)


def _suggested(report: UsageReport) -> Iterator[str]:
    suggestions = report.suggestions
    yield (
        f"suggested: {_counted(len(suggestions.removals), 'removal')}, "
        f"{_counted(len(suggestions.narrowings), 'narrowing')}"
    )
    if suggestions.left_out:
        yield f"left out, for the reasons given: {len(suggestions.left_out):,}"
    if suggestions.proof is not None:
        yield (
            f"proof: over {_counted(suggestions.proof.tuples, 'tuple')} the suggested ACLs deny "
            "and allow nothing newly"
        )


def script_comments(report: UsageReport) -> Sequence[str]:
    """Return what stands at the head of ``commands.sh``."""
    window, acls = report.window, report.acls
    return (
        "Suggested from recorded traffic; read usage.json beside it before running this.",
        f"ACLs: {acls.source} ({acls.digest})",
        f"Allowed decisions seen: {window.allowed_first_at} to {window.allowed_last_at}",
        "No denial is removed. What is used more rarely than that is not known to be used.",
    )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
