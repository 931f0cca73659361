"""Ask authorizerd whether a Kafka principal may do something, over its decision stream.

``authorizerd_client.blocking.Client`` is for threads and scripts.
``authorizerd_client.trio.Client`` has the same methods for trio, and needs trio. This module
exports the values and errors of both.

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

__all__ = [
    "ALLOWED",
    "DENIED",
    "INVALID",
    "NOT_READY",
    "AnswerError",
    "AnyQuestion",
    "AuthorizerdError",
    "ClosedError",
    "ConnectionLostError",
    "Decisions",
    "ForbiddenError",
    "InvalidQuestionError",
    "InvalidRequestError",
    "NotReadyError",
    "OffsetNotReachedError",
    "OverloadedError",
    "ProtocolError",
    "Question",
    "TimedOutError",
    "TlsError",
    "TokenRefusedError",
    "UnsupportedVersionError",
]
