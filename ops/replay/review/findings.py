"""What a reviewer should know about each ACL, and about the ACLs of one owner.

**Invariant:** each ACL is on the page of every owner that owns it, or else on that of no owner.
Equal inputs give equal pages, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from authorizerd.acl.explanation.words import join_words
from authorizerd.acl.grants.model import Grant
from authorizerd.acl.grants.reading import describe_grant, read_grants
from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note, list_notes
from authorizerd.acl.risks import Level, find_risks
from authorizerd.acl.snapshot import AclSnapshot, is_grant
from authorizerd.acl.surprises import find_surprises
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.management.review.owners import NO_OWNER, Owner
from authorizerd.management.review.sheet import ACL_COLUMNS, name_cells, name_id
from authorizerd.replay.acl_set import AclSet, DatedAcl
from authorizerd.replay.report.findings import Finding
from authorizerd.replay.review.evidence import Evidence, Use
from authorizerd.replay.text import format_count, format_time

NOT_KNOWN: Final = "not known"
WAITING_SHOWN_MAX: Final = 20


class Reviewed(NamedTuple):
    """The ACLs under review, and what decisions depend on.

    Attributes:
        acl_set: the ACLs in their order, with the times when they were added.
        ids: their uuids, if the source has them.
        source: where the ACLs are from, as a phrase.
        release: the Kafka releases that may judge.
        settings: each setting with its origin.
        authors: who added an ACL, or candidates, as a phrase.
        author_note: where the authors are from, or why they are not known.
    """

    snapshot: AclSnapshot
    acl_set: AclSet
    ids: Mapping[Acl, bytes]
    source: str
    release: str
    settings: tuple[str, ...]
    known: KnownSettings
    authors: Mapping[Acl, str] = {}
    author_note: str = "not known: Kafka does not record authors"


class Group(StrEnum):
    """Why a reviewer looks at an ACL. The value is a heading; the order is that of a page."""

    RISKY = "ACLs that stand out"
    UNUSED = "Unused ACLs"
    UNKNOWN = "ACLs whose use is not known"
    USED = "Used ACLs"


class Item(NamedTuple):
    """An ACL on a page. ``row`` has the cells of its sheet, which docs/documents.md describes."""

    group: Group
    risks: tuple[str, ...]
    row: dict[str, str | int]


class Page(NamedTuple):
    """The ACLs of an owner, or of none; ``name`` is that of its files, without an ending.

    ``waiting`` has the grants that have not begun: their ACLs are not among the items.
    """

    name: str
    items: tuple[Item, ...]
    waiting: tuple[str, ...] = ()

    @property
    def is_unowned(self) -> bool:
        return self.name == NO_OWNER


def make_pages(reviewed: Reviewed, owners: Sequence[Owner], evidence: Evidence) -> tuple[Page, ...]:
    """Return a page for each owner, and one for the ACLs without an owner."""
    grants = _find_grants(reviewed)
    owned: dict[str, list[tuple[Item, tuple[str, ...]]]] = {owner.name: [] for owner in owners}
    owned[NO_OWNER] = []
    for dated in reviewed.acl_set.acls:
        if is_note(dated.acl):
            continue
        item = _describe(dated, reviewed, evidence, grants.get(dated.acl))
        names = tuple(owner.name for owner in owners if owner.selector.manages(dated.acl))
        for name in names or (NO_OWNER,):
            owned[name].append((item, names))
    waiting: dict[str, list[str]] = {name: [] for name in owned}
    for grant in read_grants(list_notes(reviewed.snapshot)).grants:
        if grant.is_waiting:
            names = tuple(owner.name for owner in owners if owner.selector.manages(grant.acl))
            for name in names or (NO_OWNER,):
                waiting[name].append(escape_unprintable(describe_grant(grant)))
    return tuple(
        Page(name, tuple(_number(name, each)), tuple(waiting[name])) for name, each in owned.items()
    )


def _number(owner: str, items: list[tuple[Item, tuple[str, ...]]]) -> Iterator[Item]:
    def rank(item: Item) -> tuple[int, bool, str]:
        is_urgent = item.row["attention"] == Level.HIGH
        return list(Group).index(item.group), not is_urgent, str(item.row["principal"])

    items.sort(key=lambda each: rank(each[0]))
    for number, (item, names) in enumerate(items, 1):
        others = " ".join(name for name in names if name != owner)
        whose = {"owner": owner if names else "", "also_owned_by": others}
        yield item._replace(row={**item.row, "number": number, **whose})


def _find_grants(reviewed: Reviewed) -> dict[Acl, Grant]:
    """Return the grant of each ACL that ends, the last one to end."""
    grants: dict[Acl, Grant] = {}
    for grant in read_grants(list_notes(reviewed.snapshot)).grants:
        if grant.is_waiting:
            continue
        is_other = grant.acl_id not in (None, reviewed.ids.get(grant.acl, grant.acl_id))
        if not is_other and (was := grants.get(grant.acl, grant)).end_ms <= grant.end_ms:
            grants[was.acl] = grant
    return grants


def _describe(dated: DatedAcl, reviewed: Reviewed, evidence: Evidence, grant: Grant | None) -> Item:
    """Return what is known about an ACL, without a number and owners."""
    acl, allows = dated.acl, is_grant(dated.acl)
    risks = list(find_risks(acl, reviewed.snapshot, reviewed.known.least))
    sentences = [risk.sentence for risk in risks]
    sentences += find_surprises(acl, reviewed.snapshot.rules)
    use, usage, reason = evidence.uses[acl]
    alone = 0 if usage is None else usage.alone.events
    author = [reviewed.authors[acl]] if acl in reviewed.authors else []
    author += [] if grant is None else [f"grant of {grant.author}: {grant.reason}"]
    group = {Use.USED: Group.USED, Use.UNUSED: Group.UNUSED}.get(use, Group.UNKNOWN)
    row: dict[str, str | int] = {
        "number": 0,
        **dict(zip(ACL_COLUMNS, name_cells(acl), strict=True)),
        "use": use.value,
        "use_reason": reason,
        "requests": 0 if usage is None else alone + usage.with_others.events,
        "last_used_at": "" if usage is None else format_time(usage.last_ms),
        "newly_denied": alone if allows else 0,
        "if_removed": NOT_KNOWN
        if evidence.window is None
        else _describe_removal(alone, allows=allows),
        "attention": min((risk.level for risk in risks), default=""),
        "risks": "; ".join(sentences),
        "added_at": NOT_KNOWN if dated.added_ms is None else format_time(dated.added_ms),
        "added_by": escape_unprintable("; ".join(author)),
        "ends": "" if grant is None else format_time(grant.end_ms),
        "owner": "",
        "also_owned_by": "",
        "id": name_id(acl, reviewed.ids.get(acl)),
    }
    return Item(Group.RISKY if risks else group, tuple(sentences), row)


def _describe_removal(alone: int, *, allows: bool) -> str:
    noun = "recorded request" if allows else "recorded denial"
    counted = format_count(alone, noun) if alone else f"no {noun}"
    return f"denies {counted}" if allows else f"leaves {counted} to the other ACLs"


def assess(page: Page, reviewed: Reviewed, evidence: Evidence) -> Iterator[Finding]:
    """Yield the sentences at the head of a page."""

    def count(**cells: str) -> int:
        return sum(cells.items() <= item.row.items() for item in page.items)

    if not page.items and not page.is_unowned:
        text = "no ACLs: compare the entries of this owner in the file of owners"
        yield Finding("acls", "doubtful", text)
    if page.items and page.is_unowned:
        text = f"{format_count(len(page.items), 'ACL')} without an owner: name one, or remove them"
        yield Finding("owners", "bad", text)
    risky = sum(item.group is Group.RISKY for item in page.items)
    if risky:
        high = count(attention=Level.HIGH)
        text = f"{format_count(risky, 'ACL')} with risks, {high:,} of them high"
        yield Finding("acls", "bad" if high else "doubtful", text)
    yield from _assess_grants(page, reviewed)
    unused, unknown = count(use=Use.UNUSED), count(use=Use.UNKNOWN)
    if unused:
        yield Finding("use", "doubtful", f"{format_count(unused, 'ACL')} unused in the window")
    limits = (evidence.failure,) if evidence.failure else evidence.limits
    text = "the record covers the window"
    if unknown:
        text = f"{format_count(unknown, 'ACL')} without recorded use, whose use is not known"
    if page.items:
        notes = (*limits, *evidence.notes)
        yield Finding("use", "doubtful" if unknown else "plain", text, notes)
    others = {name for item in page.items for name in str(item.row["also_owned_by"]).split()}
    if others:
        shared = format_count(len(page.items) - count(also_owned_by=""), "ACL")
        note = "An ACL is removed only if each owner says so."
        text = f"{shared} with other owners: {join_words(sorted(others))}"
        yield Finding("owners", "doubtful", text, (note,))
    users = reviewed.known.super_users
    names = tuple(sorted(users or ()))
    text = f"{format_count(len(users or ()), 'super user')} may do everything without an ACL"
    if users is None:
        text = "it is not known who may do everything without an ACL: pass --super-users"
    yield Finding("rights", "plain" if users == frozenset() else "doubtful", text, names)


def _assess_grants(page: Page, reviewed: Reviewed) -> Iterator[Finding]:
    if page.waiting:
        text = f"{format_count(len(page.waiting), 'grant')} that will create ACLs later"
        more = len(page.waiting) - WAITING_SHOWN_MAX
        notes = page.waiting[:WAITING_SHOWN_MAX] + (f"and {more:,} more",) * (more > 0)
        yield Finding("grants", "doubtful", text, notes)
    faults = len(read_grants(list_notes(reviewed.snapshot)).faults)
    if faults:
        text = f"{format_count(faults, 'note')} that cannot be read, so more ACLs may end"
        yield Finding("grants", "doubtful", text)
