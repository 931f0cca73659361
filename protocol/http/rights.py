"""The rights of callers: what the daemon's settings let a principal ask.

**Invariant:** no right implies another.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class Right(StrEnum):
    """A right of a caller, beyond asking about itself."""

    ASK = "ask"
    SEARCH = "search"
    READ = "read"

    @property
    def key(self) -> str:
        """The key that lists the principals with this right."""
        return f"authorizerd.callers.{self}"


class Needs(msgspec.Struct, frozen=True):
    """The rights that a surface requires of a caller with credentials.

    Args:
        others: the right to ask about others, None if none is necessary.
        itself: the right to ask about itself, None if none is necessary.
        to: what a caller without the right may not do, for errors.
        past: the additional right for a question about the past; None if the surface does not
            answer any.
        trusts: False if a port without credentials refuses every caller, since nothing proves who
            it is.
    """

    others: Right | None
    itself: Right | None
    to: str
    past: Right | None = None
    trusts: bool = True


_OTHERS: Final = "search the rights of others"

NOTHING: Final = Needs(None, None, "")
DECISIONS: Final = Needs(Right.ASK, None, "ask about others")
FORWARDED: Final = Needs(Right.ASK, Right.ASK, "ask for the users of a gateway")
EVALUATIONS: Final = Needs(Right.ASK, None, "ask about others", Right.READ)
OWN_SEARCHES: Final = Needs(Right.SEARCH, None, _OTHERS, Right.READ)
SEARCHES_OF_ALL: Final = Needs(Right.SEARCH, Right.SEARCH, _OTHERS, Right.READ)
EXPLANATIONS: Final = Needs(
    Right.SEARCH, Right.SEARCH, "get explanations, which show ACLs of others", Right.READ
)
HISTORIES: Final = Needs(
    Right.READ, Right.READ, "get histories, which list changes of ACLs", Right.READ
)
ACLS: Final = Needs(Right.READ, Right.READ, "list or watch ACLs", Right.READ, trusts=False)
DENIALS: Final = Needs(Right.READ, Right.READ, "see denials of others", trusts=False)
VERIFICATION: Final = Needs(
    Right.READ, Right.READ, "see how brokers decided about others", trusts=False
)
PAST: Final = Needs(Right.READ, Right.READ, "ask about the past", Right.READ)
