"""Carry out a plan of ``authorizerd acls``: send requests to a server, print the results.

**Invariant:** each group is one step, announced before it is carried out, as in kafka-acls. A
failed step ends the command; the steps before it remain done.

Source: Kafka 4.3 AclCommand.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TextIO, assert_never

from authorizerd.acl.explanation.words import count_of, name_type
from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.acl.surprises import find_surprises
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acls.errors import KafkaAclsError
from authorizerd.cli.acls.plan import Addition, Group, Listing, Plan, Removal
from authorizerd.cli.program.ending import saying
from authorizerd.management.formats.catalogue import FORMATS
from authorizerd.management.formats.listing import (
    format_acls,
    format_entries,
    format_entry,
    format_pattern,
)


class AclReader(Protocol):
    """A source of ACLs: a server or a log."""

    async def describe(self, filter: AclFilter) -> list[Acl]: ...


class Removed(NamedTuple):
    """The number of ACLs that were removed.

    ``is_certain`` is False if the request was sent again: an earlier attempt may have removed more.
    """

    acls: int
    is_certain: bool = True

    def __str__(self) -> str:
        if self.is_certain:
            return f"{count_of(self.acls, 'ACL')} removed"
        return f"{count_of(self.acls, 'ACL')} removed, and perhaps more by an earlier attempt"


class AclAdmin(AclReader, Protocol):
    """A server whose ACLs can be read and changed; a change is complete once its method returns.

    All methods raise KafkaAclsError if the server rejects the request or does not answer.
    """

    async def create(self, acls: Sequence[Acl]) -> None: ...

    async def delete(self, filters: Sequence[AclFilter]) -> Removed: ...


_PRINTED: Final = re.compile(r"[^\n\t]+")
"""Matches the parts of the output between line breaks and tabs, which are kept."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The user's terminal. Answers may also come from a file or a pipe."""

    answers: TextIO
    out: TextIO
    error: TextIO

    def agrees(self, asked: str) -> bool:
        self.tell(asked)
        answer = self.answers.readline()
        if not answer:
            raise KafkaAclsError(("java.io.EOFException", "the question was not answered"))
        return answer.rstrip("\r\n") in ("y", "Y")

    def tell(self, text: str) -> None:
        """Print to standard output at once; on a terminal, without control characters.

        Otherwise the text is exactly that of kafka-acls, because programs read it.
        """
        if self.out.isatty():
            text = _PRINTED.sub(lambda match: escape_unprintable(match[0]), text)
        self.out.write(text)
        self.out.flush()

    def complain(self, text: str) -> None:
        self.error.write(text)
        self.error.flush()


@dataclass(slots=True)
class Steps:
    """Counts the finished groups of a change, in case a signal ends it."""

    count: int
    finished: int = 0
    is_sent: bool = False

    def finish(self) -> None:
        self.finished += 1
        self.is_sent = False

    def describe(self) -> str:
        done = f"{self.finished} of {count_of(self.count, 'resource pattern')} changed as asked"
        if self.is_sent:
            done += "; it is not known whether the last request was carried out"
        return f"{done}. Run the command again: it continues with what is missing"


async def execute(plan: Plan, admin: AclAdmin, terminal: Terminal) -> None:
    """Carry out a plan. Asking the user blocks the event loop, which has no other tasks."""
    match plan:
        case Listing():
            await execute_listing(plan, admin, terminal)
        case Addition():
            _warn_of(plan, terminal)
            steps = Steps(len(plan.groups))
            with saying(steps.describe):
                for group in plan.groups:
                    await _add(group, admin, terminal, steps)
        case Removal():
            _warn_of_principals(plan, terminal)
            steps = Steps(len(plan.groups))
            with saying(steps.describe):
                for group in plan.groups:
                    if not plan.asks or terminal.agrees(format_question(group)):
                        steps.is_sent = True
                        removed = await admin.delete(group.filters())
                        terminal.complain(
                            f"authorizerd: {removed}: {_name_filter(group.pattern)}\n"
                        )
                    steps.finish()
        case _:
            assert_never(plan)


async def execute_listing(listing: Listing, reader: AclReader, terminal: Terminal) -> None:
    found: list[Acl] = []
    for wanted in listing.filters or (AclFilter(),):
        found += await reader.describe(wanted)
    if listing.as_json:
        # Without its note, a reader of the document would make the ACL of a grant permanent.
        is_part = listing.filters or listing.principals
        notes = await _describe_notes(reader) if is_part else []
        _print_document(found, notes, listing.principals, terminal)
    elif listing.principals:
        terminal.tell(format_by_principal(found, listing.principals))
    else:
        terminal.tell(format_acls(found))
    if not listing.as_json and any(acl.principal == _NOTE_PRINCIPAL for acl in found):
        terminal.complain(_NAME_NOTES)


_NOTE_PRINCIPAL: Final = "Authorizerd:note"
"""That of ``acl.notes``, which would load the index of ACLs for each listing."""
_NAME_NOTES: Final = (
    "authorizerd: the ACLs of Authorizerd:note are notes, which allow and deny nothing:"
    " 'authorizerd acls grants' shows what they say of grants\n"
)


def _print_document(
    acls: list[Acl], notes: list[Acl], principals: Sequence[str], terminal: Terminal
) -> None:
    """Print the ACLs of these principals, or of all, as JSON; warn about ACLs that are left out.

    Args:
        notes: those of grants are printed with their ACLs.
    """
    from authorizerd.acl.grants.reading import follow_note

    theirs = [acl for acl in acls if not principals or acl.principal in principals]
    kept = frozenset(theirs)
    theirs += (note for note in notes if note not in kept and follow_note(note) in kept)
    written = FORMATS["json"].write(theirs)
    for loss in written.losses:
        terminal.complain(f"authorizerd: left out: {escape_unprintable(str(loss))}\n")
    terminal.tell(written.text)


def _warn_of(plan: Addition, terminal: Terminal) -> None:
    """Warn about probable mistakes, on standard error only: the output stays kafka-acls'."""
    acls = [acl for group in plan.groups for acl in group.acls()]
    for text in dict.fromkeys(text for acl in acls for text in find_surprises(acl)):
        terminal.complain(f"authorizerd: warning: {escape_unprintable(text)}\n")


def _name_filter(pattern: AclFilter) -> str:
    """Return the resources of a removal: "topic demo, LITERAL"."""
    resource = f"{name_type(pattern.resource_type)} {pattern.resource_name}"
    return f"{escape_unprintable(resource)}, {PatternType.read(pattern.pattern_type).name}"


def _warn_of_principals(plan: Removal, terminal: Terminal) -> None:
    """Warn about principals without a colon, a probable mistake, on standard error only."""
    principals = (entry.principal for group in plan.groups for entry in group.entries)
    for principal in dict.fromkeys(principals):
        if ":" not in principal:
            terminal.complain(
                f"authorizerd: warning: principal '{escape_unprintable(principal)}' has no colon:"
                " only ACLs with exactly this principal are removed, not those of"
                f" 'User:{escape_unprintable(principal)}'\n"
            )


async def _add(group: Group, admin: AclAdmin, terminal: Terminal, steps: Steps) -> None:
    pattern = group.pattern
    present = set(await admin.describe(pattern))
    acls = group.acls()
    missing = [acl for acl in acls if acl not in present]
    terminal.tell("".join(format_existing(acl) for acl in acls if acl in present))
    if len(missing) < len(acls):
        await _warn_of_ends(present.intersection(acls), admin, terminal)
    if missing:
        terminal.tell(format_addition(missing))
        steps.is_sent = True
        await admin.create(missing)
    steps.finish()


async def _describe_notes(reader: AclReader) -> list[Acl]:
    return await reader.describe(AclFilter(principal=_NOTE_PRINCIPAL))


async def _warn_of_ends(acls: Collection[Acl], admin: AclAdmin, terminal: Terminal) -> None:
    """Warn of ACLs that exist and end: Kafka ignores an ACL that is added again."""
    from authorizerd.acl.grants.reading import describe_grant, read_grants

    for grant in read_grants(await _describe_notes(admin)).grants:
        if grant.acl in acls and not grant.is_waiting:
            terminal.complain(
                f"authorizerd: warning: this ACL exists, and still ends: "
                f"{escape_unprintable(describe_grant(grant))}; to keep it, use 'authorizerd acls "
                "grant --permanent'\n"
            )


def _format_pattern(pattern: Acl | AclFilter) -> str:
    return format_pattern(pattern.resource_type, pattern.resource_name, pattern.pattern_type)


def format_by_principal(acls: Iterable[Acl], principals: Sequence[str]) -> str:
    acls_by_principal: dict[str, list[Acl]] = {principal: [] for principal in principals}
    for acl in acls:
        if acl.principal in acls_by_principal:
            acls_by_principal[acl.principal].append(acl)
    return "".join(
        f"ACLs for principal `{principal}`\n{format_acls(theirs)}"
        for principal, theirs in acls_by_principal.items()
    )


def format_addition(acls: Sequence[Acl]) -> str:
    """Return the announcement of the ACLs that will be created; all have the same pattern."""
    return f"Adding ACLs for resource `{_format_pattern(acls[0])}`: \n {format_entries(acls)}\n\n"


def format_existing(acl: Acl) -> str:
    return f"Acl (pattern={_format_pattern(acl)}, entry={format_entry(acl)}) already exists.\n"


def format_question(group: Group) -> str:
    pattern = _format_pattern(group.pattern)
    if not group.entries:
        return f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)\n"
    return (
        f"Are you sure you want to remove ACLs: \n {format_entries(group.entries)}\n"
        f" from resource filter `{pattern}`? (y/n)\n"
    )
