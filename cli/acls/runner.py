"""A plan of ``authorizerd acls`` carried out: asked of a server, told to the user.

Law: each group is a step of its own, told before it is done, as with kafka-acls. One that fails
ends the command; what came before it is done.

Source: Kafka 4.3 AclCommand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TextIO, assert_never

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.cli.acls.errors import CommandError
from authorizerd.cli.acls.output import adding, existing, listed, listed_by_principal, question
from authorizerd.cli.acls.plan import Addition, Group, Listing, Plan, Removal


class AclReader(Protocol):
    """Where ACLs can be read."""

    async def describe(self, filter: AclFilter) -> list[Acl]:
        """Return the ACLs that ``filter`` means, in any order."""
        ...


class AclAdmin(AclReader, Protocol):
    """Where ACLs can be read and changed; what a method asks for is done once it returns.

    All methods raise CommandError: the server's refusal, or its silence.
    """

    async def create(self, acls: Sequence[Acl]) -> None: ...

    async def delete(self, filters: Sequence[AclFilter]) -> None: ...


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where the user reads and answers. Answers may come from a file or a pipe too."""

    answers: TextIO
    out: TextIO
    error: TextIO

    def agrees(self, asked: str) -> bool:
        """Ask, and say whether the answer is y.

        Raises:
            CommandError: there is no answer any more.
        """
        self.tell(asked)
        answer = self.answers.readline()
        if not answer:
            raise CommandError(("java.io.EOFException", "the question was not answered"))
        return answer.rstrip("\r\n") in ("y", "Y")

    def tell(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()

    def complain(self, text: str) -> None:
        self.error.write(text)
        self.error.flush()


async def execute(plan: Plan, admin: AclAdmin, terminal: Terminal) -> None:
    """Carry out a plan. A question blocks the event loop, on which nothing else waits.

    Raises:
        CommandError: the server refuses, or does not answer.
    """
    match plan:
        case Listing():
            await execute_listing(plan, admin, terminal)
        case Addition():
            for group in plan.groups:
                await _add(group, admin, terminal)
        case Removal():
            for group in plan.groups:
                if not plan.asks or terminal.agrees(question(group)):
                    await admin.delete(group.filters())
        case _:
            assert_never(plan)


async def execute_listing(listing: Listing, reader: AclReader, terminal: Terminal) -> None:
    """List ACLs; without filters, all.

    Raises:
        CommandError: as ``execute``.
    """
    found: list[Acl] = []
    for wanted in listing.filters or (AclFilter(),):
        found += await reader.describe(wanted)
    if listing.principals:
        terminal.tell(listed_by_principal(found, listing.principals))
    else:
        terminal.tell(listed(found))


async def _add(group: Group, admin: AclAdmin, terminal: Terminal) -> None:
    pattern = group.pattern
    present = set(await admin.describe(pattern))
    acls = group.acls()
    missing = [acl for acl in acls if acl not in present]
    terminal.tell("".join(existing(acl) for acl in acls if acl in present))
    if missing:
        terminal.tell(adding(missing))
        await admin.create(missing)
