"""The content of ``usage.json``, the lines that the console shows, and ``commands.sh``.

**Invariant:** every ACL of the set is in exactly one of ``used``, ``unused`` and ``not_judged``.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from authorizerd.acl.model import Acl, Code, Operation, PatternType, PermissionType, ResourceType
from authorizerd.acl.text.kafka_acls import entry_arguments
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.replay.ingest.logs import describe_stopped
from authorizerd.replay.ingest.report import Log
from authorizerd.replay.judging.report import Count, JudgedBy
from authorizerd.replay.text import format_count

HOW_TO_LOG_ALLOWED: Final = (
    "Kafka logs allowed requests at DEBUG and denied ones at INFO, which is the default. On every "
    "broker, set log4j.logger.kafka.authorizer.logger=DEBUG (since Kafka 4: level: DEBUG of the "
    "logger kafka.authorizer.logger in log4j2.yaml), wait, and ingest the new log"
)
_OPENING: Final = """\
set -eu
if [ $# -eq 0 ]; then
    echo "usage: sh $0 --bootstrap-server HOST:PORT [--command-config FILE]" >&2
    exit 2
fi
: "${KAFKA_ACLS:=kafka-acls}" # or kafka-acls.sh, or authorizerd acls
"""


class NamedAcl(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL as in YAML and JSON sources; an unknown code is written as its number."""

    principal: str
    host: str
    operation: str
    permission_type: str
    resource_type: str
    resource_name: str
    pattern_type: str


class WindowReport(msgspec.Struct, frozen=True, kw_only=True):
    """The window and the events in it; times are ISO 8601 in UTC.

    An ACL is judged if it was added before ``begins_at``. An unused ACL was not used from
    ``allowed_first_at`` to ``allowed_last_at``. Outside that time, nothing shows that allowed
    requests were logged at all.
    """

    begins_at: str
    ends_at: str
    allowed_first_at: str
    allowed_last_at: str
    lookback_days: float | None
    allowed_events: int
    denied_events: int
    tuples: int


class UsedAcl(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL and the requests that it decided, alone or with others that decided the same.

    ``names`` counts the resources that a wildcard or a prefix was used for; None for other ACLs.
    """

    acl: NamedAcl
    added_at: str | None
    alone: Count
    with_others: Count
    last_used_at: str
    names: int | None


class UnusedAcl(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL that no recorded request used."""

    acl: NamedAcl
    added_at: str | None


class NarrowingReport(msgspec.Struct, frozen=True, kw_only=True):
    """A wide ACL and the narrower ones that would replace it."""

    acl: NamedAcl
    names: int
    events: int
    narrower: tuple[NamedAcl, ...]


class LeftOutReport(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL that is kept, although its use suggests otherwise, and the reason."""

    acl: NamedAcl
    reason: str


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of the suggested set with the old one, on every tuple of the window.

    No tuple is newly denied or allowed: a suggestion that would change a decision is left out.
    """

    digest: str
    acls: int
    tuples: int
    newly_denied: Count = Count()
    newly_allowed: Count = Count()


class SuggestionsReport(msgspec.Struct, frozen=True, kw_only=True):
    """The suggested changes, and the proof that they change no answer."""

    removals: tuple[NamedAcl, ...]
    narrowings: tuple[NarrowingReport, ...]
    left_out: tuple[LeftOutReport, ...]
    proof: Proof | None


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of ``usage.json``.

    ``not_evaluated`` counts the requests that ACLs cannot decide, by reason; ``by_super_users``
    counts those that need no ACL; ``disagreeing`` counts those that these ACLs decide differently
    from the record. ``not_judged`` contains no used ACL; its keys are
    ``added_within`` and ``age_unknown``. ``logs`` is as in ``ingest.json``.
    """

    acls: JudgedBy
    window: WindowReport
    assumed_in_force: bool
    not_evaluated: dict[str, Count]
    by_super_users: Count
    disagreeing: Count
    used: tuple[UsedAcl, ...]
    unused: tuple[UnusedAcl, ...]
    not_judged: dict[str, tuple[UnusedAcl, ...]]
    suggestions: SuggestionsReport
    logs: dict[str, Log] = {}


def decode_usage(text: str) -> UsageReport:
    """Return the report in ``text``, the content of a ``usage.json``.

    Raises:
        msgspec.DecodeError: the text is not a ``usage.json``.
    """
    return msgspec.json.decode(text, type=UsageReport)


def named(acl: Acl) -> NamedAcl:
    """Return ``acl`` with names instead of codes."""
    return NamedAcl(
        principal=acl.principal,
        host=acl.host,
        operation=_name(Operation, acl.operation),
        permission_type=_name(PermissionType, acl.permission_type),
        resource_type=_name(ResourceType, acl.resource_type),
        resource_name=acl.resource_name,
        pattern_type=_name(PatternType, acl.pattern_type),
    )


def _name(codes: type[Code], code: int) -> str:
    member = codes.read(code)
    return member.name if member == code else str(code)


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
        "The script removes no DENY. A grant that is used more rarely may look unused.",
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
