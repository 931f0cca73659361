"""The values that every format reads and writes, and the losses in between.

**Invariant:** nothing is lost silently. Anything in a text that ACLs cannot express is a ``Loss``
of the reading. An ACL that a format cannot express is a ``Loss`` of the writing, and is not in the
text. Reading a written text returns all other ACLs, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from authorizerd.acl.model import Acl
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.management.plan.selector import Managed, Selector


class AclTextError(Exception):
    """A text that cannot be read as ACLs: every function that reads or checks one raises it.

    ``place`` is, for example, ``line 7`` or ``acls[3].operation``. ``key`` is the key of a mapping
    at this place that the error is about.
    """

    def __init__(self, place: str, reason: str, *, key: str | None = None) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason
        self.key = key

    def __str__(self) -> str:
        """Return ``place: reason`` on one line, whatever the text contains."""
        return escape_unprintable(f"{self.place}: {self.reason}")


class Loss(msgspec.Struct, frozen=True):
    """Something that the other side cannot express.

    Attributes:
        acl: the ACL that is lost; None for a part of a text that is not an ACL.
        reason: why, as a sentence; it names the place in a text.
        is_document: True if a whole document or resource was not read.
    """

    acl: Acl | None
    reason: str
    is_document: bool = False

    def __str__(self) -> str:
        """Return one line, whatever the names contain."""
        text = self.reason if self.acl is None else f"{self.acl}: {self.reason}"
        return escape_unprintable(text)


class Scope(msgspec.Struct, frozen=True):
    """The ACLs that a text manages: of certain principals, single ACLs, and those that entries
    select."""

    principals: frozenset[str] = frozenset()
    acls: frozenset[Acl] = frozenset()
    entries: tuple[Managed, ...] = ()

    def includes(self, acl: Acl) -> bool:
        """Return True if the text manages ``acl``, whether or not it contains it.

        The note of a grant follows its ACL.
        """
        # Imported here, because help texts import this module, and need no index of ACLs.
        from authorizerd.acl.grants.reading import follow_note

        followed = follow_note(acl)
        return followed is not None and (
            followed.principal in self.principals
            or followed in self.acls
            or (bool(self.entries) and Selector(self.entries).manages(followed))
        )


class AclsRead(msgspec.Struct, frozen=True):
    """The ACLs of a text, and its losses.

    Attributes:
        acls: in the order of the text, without repeats.
        losses: parts of the text that Kafka's ACLs cannot express. An ACL that is read with a code
            UNKNOWN is in ``acls`` and here, because its true code is unknown.
        scope: what the text manages, for example all ACLs of its KafkaUsers. None means everything:
            an ACL that is not in the text should not exist. A text without ACLs manages nothing,
            unless it states that there are none.
    """

    acls: tuple[Acl, ...]
    losses: tuple[Loss, ...] = ()
    scope: Scope | None = None

    @property
    def is_empty(self) -> bool:
        """True if nothing was read: no ACL, and no statement that there are none."""
        return not self.acls and self.scope == Scope()

    def justifies_removal(self, acl: Acl) -> bool:
        """Return True if no lost part of the text can have the effect of ``acl``."""
        return not self.losses or self.scope is None or self.scope.includes(acl)


class AclsWritten(msgspec.Struct, frozen=True):
    """A text with all ACLs except those of ``losses``."""

    text: str
    losses: tuple[Loss, ...] = ()


class Format(NamedTuple):
    """A format of ACLs in text. ``read`` raises AclTextError."""

    name: str
    help: str
    read: Callable[[str], AclsRead]
    write: Callable[[Sequence[Acl]], AclsWritten]
