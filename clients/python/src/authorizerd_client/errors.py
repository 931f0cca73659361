"""The errors of all clients. Each of them means that the caller has no decision and must deny."""

from __future__ import annotations

from typing import Final

FRAME_REFUSED_SECONDS: Final = 0.1
"""How long to wait after a refused frame. After two, the daemon ignores the client this long."""
CONNECTION_REFUSED_SECONDS: Final = 1.0
"""How long to wait if no connection or memory is free: they free up more slowly than CPU time."""


class AuthorizerdError(Exception):
    """Base of all errors of a client. The caller has no decision and must deny."""


class InvalidQuestionError(AuthorizerdError):
    """A question is invalid, or too large for a frame. Asking it again gives the same error."""


class ConnectionLostError(AuthorizerdError):
    """The daemon could not be reached, or the connection broke before the answer arrived."""


class TimedOutError(AuthorizerdError):
    """The answer did not arrive within the client's time limit."""


class ClosedError(AuthorizerdError):
    """The client was closed before or during the question."""


class ProtocolError(AuthorizerdError):
    """The peer violated the protocol of the decision stream. The client closed the connection."""


class TlsError(AuthorizerdError):
    """A certificate is refused, or one side does not speak TLS.

    The text gives the reason and the remedy. Asking again gives the same error until a certificate
    or a setting has changed.
    """


class AnswerError(AuthorizerdError):
    """The daemon answered with an error instead of decisions.

    Attributes:
        code: the error code. `authorizerd docs stream` lists all codes.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, code)
        self.code = code

    def __str__(self) -> str:
        return f"{self.args[0]} (error {self.code})"


class OffsetNotReachedError(AnswerError):
    """The daemon's ACLs did not reach ``min_offset`` in time."""


class ForbiddenError(AnswerError):
    """The caller lacks a right: the daemon does not list it in ``authorizerd.callers.*``."""


class UnsupportedVersionError(AnswerError):
    """The daemon does not speak this client's version of the protocol."""


class InvalidRequestError(AnswerError):
    """The daemon could not read the questions: a field has an unexpected type."""


class TokenRefusedError(AnswerError):
    """The token is unknown, or the daemon requires one and got none."""


class NotReadyError(AnswerError):
    """The daemon has no ACLs to decide by: not loaded yet, or stale. Ask again later."""


class OverloadedError(AnswerError):
    """The daemon has more work, connections or data than its limits allow.

    Attributes:
        retry_after_seconds: wait at least this long before you ask again.
    """

    def __init__(self, message: str, code: int, retry_after_seconds: float) -> None:
        super().__init__(message, code)
        self.args = (message, code, retry_after_seconds)  # for `copy`, which passes these
        self.retry_after_seconds = retry_after_seconds


OVERLOADED: Final = 89
NOT_READY: Final = 801

_ERROR_OF: Final[dict[int, tuple[type[AnswerError], str]]] = {
    7: (OffsetNotReachedError, "min_offset was not reached in time"),
    31: (
        ForbiddenError,
        "the caller may not ask about others: authorizerd.callers.ask does not list it",
    ),
    35: (UnsupportedVersionError, "the daemon does not speak version 1 of the decision stream"),
    42: (InvalidRequestError, "the daemon could not read the questions"),
    58: (TokenRefusedError, "a valid token or client certificate is required"),
    NOT_READY: (
        NotReadyError,
        "the daemon cannot decide: its ACLs are not loaded yet, or stale; its /readyz says which",
    ),
}


def new_answer_error(
    code: int, *, retry_after_seconds: float = FRAME_REFUSED_SECONDS
) -> AnswerError:
    """Return the exception for an error code of the daemon."""
    if code == OVERLOADED:
        return OverloadedError("the daemon is overloaded", code, retry_after_seconds)
    error, message = _ERROR_OF.get(code, (AnswerError, "the daemon answered with an error"))
    return error(message, code)
