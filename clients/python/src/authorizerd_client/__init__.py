"""Ask authorizerd whether a Kafka principal may do something, over its decision stream.

``authorizerd_client.blocking.Client`` is for threads and scripts. The ``Client`` of
``authorizerd_client.asyncio`` has the same methods for asyncio, and that of
``authorizerd_client.trio``, which needs trio, for trio. The ``watch`` of each of these modules
lists the ACLs of a daemon, and follows their changes. This module exports the values and errors.

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
