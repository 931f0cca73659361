"""Compare reports with the oracle of recorded requests, which shares no code with the product."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import astuple

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.text import format_time
from authorizerd.replay.usage.report import UsageReport, named
from authorizerd.replay.whatif.report import Changed, WhatIf
from tests.oracles.recorded import (
    AclFields,
    Asked,
    Key,
    Set,
    count,
    count_agreement,
    find_changes,
    find_uses,
    why_unasked,
)


def set_of(acl_set: AclSet, acls: Sequence[AclFields] | None = None) -> Set:
    """Return the oracle's form of a set, or of other ACLs with its settings."""
    if acls is None:
        acls = [astuple(named(item.acl)) for item in acl_set.acls]
    is_open = acl_set.allow_everyone_if_no_acl_found or False
    return Set(acls, acl_set.super_users or (), is_open, [str(one) for one in acl_set.releases])


def check_whatif(
    report: WhatIf, asked: Mapping[Key, Asked], candidate: AclSet, baseline: AclSet | None
) -> None:
    """Check every figure and list of a what-if, except the texts of rules."""
    assert (report.events, report.allowed_events, report.tuples) == (
        sum(len(one.all) for one in asked.values()),
        sum(len(one.allowed) for one in asked.values()),
        len(asked),
    )
    _check_unasked(report.not_evaluated, asked)
    before = None if baseline is None else set_of(baseline)
    for kind, changes in find_changes(asked, set_of(candidate), before).items():
        _check_changed(getattr(report, kind), changes)
    if before is not None:
        differing, judged = count_agreement(asked, before)
        assert report.as_recorded is not None
        assert report.not_as_recorded is not None
        assert report.not_as_recorded.events == differing
        assert report.as_recorded.events == judged - differing


def _check_unasked(found: Mapping[str, Any], asked: Mapping[Key, Asked]) -> None:
    expected = count((why_unasked(key), len(one.all)) for key, one in asked.items())
    expected.pop(None, None)
    assert {why: (each.events, each.tuples) for why, each in found.items()} == expected


def _check_changed(found: Changed, changes: Mapping[Key, Sequence[int]]) -> None:
    sizes = {key: len(times) for key, times in changes.items()}
    assert (found.events, found.tuples) == (sum(sizes.values()), len(sizes))
    for groups, part in (
        (found.by_principal, lambda key: (key[0],)),
        (found.by_resource, lambda key: (key[3], key[4])),
        (found.by_operation, lambda key: (key[2],)),
    ):
        expected = [
            (*name, *counted)
            for name, counted in count((part(key), size) for key, size in sizes.items()).items()
        ]
        expected.sort(key=lambda row: (-row[-2], -row[-1], row[:-2]))
        assert [astuple(group) for group in groups] == expected
    details = [
        (one.principal, one.host, one.operation, one.resource_type, one.resource_name, one.events,
         one.first_at, one.last_at)
        for one in found.details
    ]  # fmt: skip
    assert sorted(details, key=str) == sorted(
        ((*key[:5], len(times), format_time(min(times)), format_time(max(times)))
         for key, times in changes.items()), key=str,
    )  # fmt: skip
    assert [one[5] for one in details] == sorted(sizes.values(), reverse=True)


def check_usage(report: UsageReport, asked: Mapping[Key, Asked], acls: AclSet) -> None:
    """Check the use of every ACL in the window, and that the suggestions change no answer."""
    begins, own = report.window.begins_at, set_of(acls)
    within = {
        key: Asked(*([at for at in times if format_time(at) >= begins] for times in sides))
        for key, one in asked.items()
        for sides in ((one.allowed, one.denied),)
    }
    within = {key: one for key, one in within.items() if one.all}
    assert report.window.allowed_events == sum(len(one.allowed) for one in within.values())
    assert report.window.tuples == len(within)
    _check_unasked(report.not_evaluated, within)
    assert report.disagreeing.events == count_agreement(within, own)[0]
    uses = find_uses(within, own)
    added = {astuple(named(item.acl)): item.added_ms for item in acls.acls}
    used = {acl: use for acl, use in uses.items() if use.last_ms >= (added[acl] or 0)}
    found = {astuple(each.acl): each for each in report.used}
    assert found.keys() == used.keys()
    for acl, each in found.items():
        use = used[acl]
        is_wide = acl[3] == "ALLOW" and (acl[6] == "PREFIXED" or acl[5] == "*")
        for counted, events in ((each.alone, use.alone), (each.with_others, use.with_others)):
            assert (counted.events, counted.tuples) == (sum(events), len(events))
        assert each.names == (len(use.names) if is_wide else None)
        assert each.last_used_at == format_time(use.last_ms)
    unused = {astuple(each.acl) for each in report.unused}
    others = {astuple(each.acl) for some in report.not_judged.values() for each in some}
    assert unused | others == added.keys() - used.keys()
    assert not unused & others
    removed = {astuple(each) for each in report.suggestions.removals}
    narrowed = {astuple(each.acl): each.narrower for each in report.suggestions.narrowings}
    after = [acl for acl in own.acls if acl not in removed and acl not in narrowed]
    after += [astuple(each) for some in narrowed.values() for each in some]
    changes = find_changes(within, set_of(acls, after), own)
    assert changes == {"newly_denied": {}, "newly_allowed": {}}
