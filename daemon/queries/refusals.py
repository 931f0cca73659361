"""The errors with which a child refuses a question; the caller's process raises them."""

from __future__ import annotations

from typing import Final

from authorizerd.acl.errors import InvalidQuestionError, SearchLimitError
from authorizerd.daemon.errors import (
    BusyError,
    PastRefusedError,
    PastTooFarError,
    PastUnavailableError,
)
from authorizerd.protocol.decisions.acl_filters import QueryError
from authorizerd.protocol.decisions.authzen import AuthZenError
from authorizerd.protocol.queries import Refusal

EXPECTED: Final = (
    AuthZenError,
    BusyError,
    InvalidQuestionError,
    PastRefusedError,
    PastTooFarError,
    PastUnavailableError,
    QueryError,
    SearchLimitError,
)
ERRORS: Final[dict[str, type[Exception]]] = {error.__name__: error for error in EXPECTED}
"""The errors that a refusal may name."""


def refuse(error: Exception) -> Refusal:
    """Return the refusal that makes the caller's process raise ``error``."""
    return Refusal(type(error).__name__, str(error))


def error_of(refusal: Refusal) -> Exception:
    """Return the error that a refusal stands for."""
    return ERRORS[refusal.error](refusal.text)
