"""What clients have sent, and what they were told: the whole evidence besides the log.

Times are seconds of the monotonic clock. ``sent`` is taken before a request's first byte leaves,
and ``answered`` after its answer was read, so what the daemon did lies between them. For a judge
that compares at once, ``sent`` is what its ``begin`` has returned then.
"""

import math
import time
from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from authorizerd.acl.model import Acl, Question


class Outcome(Enum):
    """A client's knowledge of its update."""

    IN_DOUBT = "in doubt"
    """No answer has come, or one that says that it may still be made."""
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    """It was not made, and never will be."""


@dataclass(slots=True, kw_only=True, eq=False)
class Update:
    """A request to create or delete one group of ACLs. Clients enter it before they send it.

    Args:
        marker: an ACL of the group that is in no other group. So the log shows what became of it.
            It is the last ACL of the request.
        acls: the whole group. An ACL may be in several groups.
        shown_within: the seconds after the acknowledgement in which the daemon may not show it yet.
        found: what a deletion was told to have deleted.
    """

    marker: Acl
    acls: frozenset[Acl]
    is_deletion: bool
    sent: float
    answered: float = math.inf
    outcome: Outcome = Outcome.IN_DOUBT
    found: frozenset[Acl] = frozenset()
    shown_within: float = 0.0

    def __str__(self) -> str:
        what = "deletion" if self.is_deletion else "creation"
        return f"{self.outcome.value} {what} of {self.marker.resource_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The decisions of one request.

    Args:
        connection: the answers of one connection never go back.
        offset: of the state that decided; None if the answer does not say so.
    """

    surface: str
    connection: int
    questions: tuple[Question, ...]
    decisions: tuple[bool, ...]
    sent: float
    answered: float = field(default_factory=time.monotonic)
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All ACLs that change, or the literal ones of one ``topic``, as one answer has them."""

    acls: frozenset[Acl]
    sent: float
    answered: float = field(default_factory=time.monotonic)
    topic: str | None = None


@dataclass
class Journal:
    """All updates, and what is not checked yet. Clients in several threads append to it.

    ``begun`` is the time from which times are shown.
    """

    begun: float = field(default_factory=time.monotonic)
    updates: list[Update] = field(default_factory=list)
    answers: deque[Answer] = field(default_factory=deque)
    listings: deque[Listing] = field(default_factory=deque)

    def begin(self) -> float:
        return time.monotonic()

    def take(self, told: Answer | Listing) -> None:
        """Enter what the judge compares later."""
        if isinstance(told, Answer):
            self.answers.append(told)
        else:
            self.listings.append(told)

    def format_times(self, sent: float, answered: float) -> str:
        """Return when a request was sent and answered, in seconds since the beginning."""
        return f"sent at {sent - self.begun:.3f} s, answered at {answered - self.begun:.3f} s"
