"""Ask authorizerd whether a Kafka principal may do something, over its decision stream.

``authorizerd_client.blocking.Client`` is for threads and scripts.
``authorizerd_client.trio.Client`` has the same methods for trio, and needs trio. This module
exports the values and errors of both.

``authorizerd_client.blocking_watch.watch`` and ``authorizerd_client.trio_watch.watch`` list the
ACLs of a daemon, and follow their changes.

**Invariant:** no failure looks like a permission. A client returns True only if the daemon allowed
the question; if there is no decision, it raises an ``AuthorizerdError``, and the caller denies.
"""

from __future__ import annotations

from authorizerd_client.errors import (
    AnswerError,
    AuthorizerdError,
    ClosedError,
    ConnectionLostError,
    ForbiddenError,
    InvalidQuestionError,
    InvalidRequestError,
    NotReadyError,
    OffsetNotReachedError,
    OverloadedError,
    ProtocolError,
    TimedOutError,
    TlsError,
    TokenRefusedError,
    UnsupportedVersionError,
)
from authorizerd_client.values import (
    ALLOWED,
    DENIED,
    INVALID,
    NOT_READY,
    AnyQuestion,
    Decisions,
    Question,
)
from authorizerd_client.watch_values import (
    Acl,
    AclChange,
    AclEvent,
    Changes,
    Listing,
    Resumed,
    Suspended,
)

__all__ = [
    "ALLOWED",
    "DENIED",
    "INVALID",
    "NOT_READY",
    "Acl",
    "AclChange",
    "AclEvent",
    "AnswerError",
    "AnyQuestion",
    "AuthorizerdError",
    "Changes",
    "ClosedError",
    "ConnectionLostError",
    "Decisions",
    "ForbiddenError",
    "InvalidQuestionError",
    "InvalidRequestError",
    "Listing",
    "NotReadyError",
    "OffsetNotReachedError",
    "OverloadedError",
    "ProtocolError",
    "Question",
    "Resumed",
    "Suspended",
    "TimedOutError",
    "TlsError",
    "TokenRefusedError",
    "UnsupportedVersionError",
]
