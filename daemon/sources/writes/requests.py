"""A change of ACLs on its way to the cluster, and its known outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.completion import Completion
from authorizerd.actors.errors import RejectedUpdateError
from authorizerd.protocol.kafka.acls import FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError


@dataclass(slots=True, eq=False, kw_only=True)
class Creations:
    """A creation request. ``deadline`` is in trio's time.

    ``is_sent`` is True if a node may have received it, and its outcome is not known. The completion
    has an item for each ACL: an exception, or None for success.
    """

    api_key: ClassVar[ApiKey] = ApiKey.CREATE_ACLS

    items: list[Acl]
    caller: RequestContext
    deadline: float
    is_sent: bool = False
    completion: Completion[Any] = field(default_factory=Completion)


@dataclass(slots=True, eq=False, kw_only=True)
class Deletions:
    """A deletion request; see ``Creations``. The completion has ``Deleted`` for success."""

    api_key: ClassVar[ApiKey] = ApiKey.DELETE_ACLS

    items: list[AclFilter]
    caller: RequestContext
    deadline: float
    is_sent: bool = False
    completion: Completion[Any] = field(default_factory=Completion)


Update: TypeAlias = Creations | Deletions


def fail(update: Update, error: Exception) -> None:
    """Fail every item of a request that is not answered yet."""
    if not update.completion.is_done:
        update.completion.fail(error)


Results: TypeAlias = list[ApiError | None] | list[FilterResult]
"""The results of a request's items, in order: of creations, or of filters."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The cluster's result of each item."""

    results: Results


@dataclass(frozen=True, slots=True)
class NotSent:
    """The request was not sent, or its receiver was not ready. It may be retried."""

    reason: str
    is_lost: bool = True
    """True if the node cannot be reached, False if it only needs time."""


@dataclass(frozen=True, slots=True)
class NotController:
    """The node is not the active controller.

    It may have lost this role after writing the change: see ``Delivery``.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The request was rejected as a whole: nothing changed, and a retry would be rejected too."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class Denied:
    """The request was not sent: its caller lost the right after it was queued."""

    error: RejectedUpdateError


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request was sent, but no valid answer came."""

    reason: str


Outcome: TypeAlias = Answered | NotSent | NotController | Rejected | Denied | Unknown
