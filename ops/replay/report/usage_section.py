"""What traffic shows of each ACL, on the page: used, unused, not judged, and what could change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from authorizerd.replay.report.bars import BARS_MAX, Bar, Part, bars, parts
from authorizerd.replay.report.markup import NOTHING, Markup, element, joined
from authorizerd.replay.report.tables import Column, Listing, facts, listing
from authorizerd.replay.report.wording import (
    NONE,
    code,
    count,
    counted,
    cut,
    name,
    settings_text,
    significant,
    time_text,
)
from authorizerd.replay.usage.report import NamedAcl, UnusedAcl, UsageReport, UsedAcl

_ACL_COLUMNS: Final = (
    Column("Principal"),
    Column("Host", "short"),
    Column("Operation", "short"),
    Column("Permission", "short"),
    Column("Type", "short"),
    Column("Resource"),
    Column("Pattern", "short"),
)
_ADDED: Final = Column("Added (UTC)", "short")
_USED_COLUMNS: Final = (
    *_ACL_COLUMNS,
    Column("Decided alone", "number"),
    Column("With others", "number"),
    Column("Names", "number"),
    Column("Last used (UTC)", "short"),
    _ADDED,
)
_NARROWER_SHOWN_MAX: Final = 5
_NOT_JUDGED: Final = {
    "added_within": "Not judged: added within the window",
    "age_unknown": "Not judged: of unknown age",
}


def usage_section(usage: UsageReport) -> Markup:
    return element(
        "section",
        element("h2", "ACLs in use"),
        facts("What was judged", _terms(usage)),
        parts("ACLs by what traffic shows of them", _partition(usage)),
        _most_used(usage.used),
        _unused(usage),
        _suggestions(usage),
        _used(usage.used),
        *(_not_judged(key, found) for key, found in usage.not_judged.items()),
        _not_evaluated(usage),
        id="usage",
    )


def _terms(usage: UsageReport) -> Iterator[tuple[str, str | None]]:
    acls, window = usage.acls, usage.window
    yield "Source", name(acls.source)
    yield "Digest", code(acls.digest)
    yield "Log offset", None if acls.offset is None else str(acls.offset)
    yield "Stamped (UTC)", acls.stamped_at and time_text(acls.stamped_at)
    yield "ACLs", count(acls.acls)
    yield from settings_text(acls.super_users, acls.allow_everyone_if_no_acl_found).items()
    yield "Window (UTC)", f"{time_text(window.begins_at)} to {time_text(window.ends_at)}"
    yield (
        "Allowed decisions seen (UTC)",
        f"{time_text(window.allowed_first_at)} to {time_text(window.allowed_last_at)}",
    )
    if window.lookback_days is not None:
        yield "Look-back", f"{significant(window.lookback_days)} days"
    yield "Allowed events", count(window.allowed_events)
    yield "Denied events", count(window.denied_events)
    yield "Distinct requests", count(window.tuples)
    yield "By super users, without ACLs", counted(usage.by_super_users.events, "event")
    yield "Recorded otherwise than decided", counted(usage.disagreeing.events, "event")
    if usage.suggestions.proof is not None:
        yield "Digest of what is suggested", code(usage.suggestions.proof.digest)


def _partition(usage: UsageReport) -> list[Part]:
    denials = sum(item.acl.permission_type != "ALLOW" for item in usage.unused)
    not_judged = sum(map(len, usage.not_judged.values()))
    return [
        Part("used", len(usage.used), "part-1"),
        Part("unused grants", len(usage.unused) - denials, "part-3"),
        Part("denials that met nothing", denials, "part-2"),
        Part("not judged", not_judged, "part-4"),
    ]


def _most_used(used: tuple[UsedAcl, ...]) -> Markup:
    ranked = sorted(used, key=lambda each: -(each.alone.events + each.with_others.events))
    if not ranked:
        return NOTHING
    return bars(
        "Most used: events decided alone, and (lighter) together with others",
        "ACL",
        ["Alone", "With others"],
        [
            Bar(
                name(acl_text(each.acl)),
                each.alone.events,
                each.with_others.events,
                numbers=[count(each.alone.events), count(each.with_others.events)],
            )
            for each in ranked[:BARS_MAX]
        ],
    )


def _used(used: tuple[UsedAcl, ...]) -> Markup:
    ranked = sorted(used, key=lambda each: -(each.alone.events + each.with_others.events))
    rows = (
        [
            *_acl_cells(each.acl),
            count(each.alone.events),
            count(each.with_others.events),
            NONE if each.names is None else count(each.names),
            time_text(each.last_used_at),
            time_text(each.added_at),
        ]
        for each in ranked
    )
    return _listing("Used, by events", _USED_COLUMNS, rows, len(used))


def _unused(usage: UsageReport) -> Markup:
    return _listing(
        "Never used", (*_ACL_COLUMNS, _ADDED), map(_unused_row, usage.unused), len(usage.unused)
    )


def _not_judged(key: str, found: tuple[UnusedAcl, ...]) -> Markup:
    title = _NOT_JUDGED.get(key, f"Not judged: {key}")
    return _listing(title, (*_ACL_COLUMNS, _ADDED), map(_unused_row, found), len(found))


def _unused_row(each: UnusedAcl) -> list[str]:
    return [*_acl_cells(each.acl), time_text(each.added_at)]


def _suggestions(usage: UsageReport) -> Markup:
    suggested = usage.suggestions
    removals = ([*_acl_cells(acl)] for acl in suggested.removals)
    narrowings = (
        [*_acl_cells(each.acl), count(each.names), count(each.events), _narrower(each.narrower)]
        for each in suggested.narrowings
    )
    left_out = ([*_acl_cells(each.acl), name(each.reason)] for each in suggested.left_out)
    proof = suggested.proof
    said: str | Markup = NOTHING
    if proof is not None:
        said = element(
            "p",
            f"Over {counted(proof.tuples, 'distinct request')} the suggested "
            f"{counted(proof.acls, 'ACL')} newly deny {counted(proof.newly_denied.events, 'event')}"
            f" and newly allow {count(proof.newly_allowed.events)}.",
        )
    return joined(
        [
            element("h3", "Suggestions"),
            said or element("p", "None was proved on the window."),
            _listing("Removals", _ACL_COLUMNS, removals, len(suggested.removals)),
            _listing(
                "Narrowings",
                (
                    *_ACL_COLUMNS,
                    Column("Names", "number"),
                    Column("Events", "number"),
                    Column("Narrower"),
                ),
                narrowings,
                len(suggested.narrowings),
            ),
            _listing(
                "Not suggested",
                (*_ACL_COLUMNS, Column("Reason", "long")),
                left_out,
                len(suggested.left_out),
            ),
        ]
    )


def _narrower(acls: tuple[NamedAcl, ...]) -> Markup:
    """Return the patterns that would do, which are all that differs from the wide ACL."""
    shown = (
        element("div", acl.pattern_type.lower(), " ", name(acl.resource_name))
        for acl in acls[:_NARROWER_SHOWN_MAX]
    )
    more = len(acls) - _NARROWER_SHOWN_MAX
    return joined([*shown, element("div", f"and {count(more)} more") if more > 0 else NOTHING])


def _not_evaluated(usage: UsageReport) -> Markup:
    return listing(
        Listing(
            title="Requests that no ACL can be asked about",
            columns=[
                Column("Reason"),
                Column("Events", "number"),
                Column("Distinct requests", "number"),
            ],
            rows=(
                [name(reason), count(counts.events), count(counts.tuples)]
                for reason, counts in sorted(usage.not_evaluated.items())
            ),
            total=len(usage.not_evaluated),
            elsewhere="usage.json",
        )
    )


def _listing(
    title: str, columns: tuple[Column, ...], rows: Iterable[list[str]], total: int
) -> Markup:
    return listing(
        Listing(title=title, columns=columns, rows=rows, total=total, elsewhere="usage.json")
    )


def _acl_cells(acl: NamedAcl) -> list[str]:
    return [
        name(acl.principal),
        name(acl.host),
        name(acl.operation),
        name(acl.permission_type),
        name(acl.resource_type),
        name(acl.resource_name),
        name(acl.pattern_type),
    ]


def acl_text(acl: NamedAcl) -> str:
    """Return an ACL in one line."""
    return (
        f"{cut(acl.principal)} {acl.permission_type} {acl.operation} {acl.resource_type} "
        f"{acl.pattern_type}:{cut(acl.resource_name)}"
    )
