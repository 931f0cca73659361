"""The decisions about one frame of the decision stream: a byte for each question, in order."""

from __future__ import annotations

from collections.abc import Sequence

from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.hosts import host_address
from authorizerd.actors.daemon_authorizer import AuthorizeFields, DecisionCounts, DecisionState
from authorizerd.protocol.decisions.stream import (
    ALLOWED,
    DENIED,
    INVALID,
    NOT_READY,
    OPERATION_OF,
    RESOURCE_TYPE_OF,
    StreamQuestion,
    encode_answer,
)
from authorizerd.protocol.kafka.error_codes import ErrorCode


def decide(
    authorize: AuthorizeFields, state: DecisionState, questions: Sequence[StreamQuestion]
) -> bytearray:
    """Return the decisions about ``questions``, which are not counted yet.

    Args:
        authorize: what ``DaemonAuthorizer.authorize_by`` returned for ``state``.
    """
    # This loop runs for every question, so it uses local names and avoids calls.
    snapshot, settings = state.snapshot, state.settings
    operation_of, resource_type_of = OPERATION_OF, RESOURCE_TYPE_OF
    decisions = bytearray()
    append = decisions.append
    last_host: str | None = None
    address: str | None = None
    for principal, host, operation_asked, type_asked, name in questions:
        try:
            operation = operation_of[operation_asked]
            resource_type = resource_type_of[type_asked]
        except KeyError:
            append(INVALID)
            continue
        # Comparing with the last host takes less time than looking it up again.
        if host != last_host:
            address = None if host is None else host_address(host)
            last_host = host
        if not name or ":" not in principal or (address is None and host is not None):
            append(INVALID)
            continue
        try:
            allowed = authorize(
                snapshot, settings, principal, address, operation, resource_type, name
            )
            append(allowed)
        except InvalidQuestionError:
            append(INVALID)
        except NotReadyError:
            append(NOT_READY)
    return decisions


def count_decisions(decisions: bytearray, counts: DecisionCounts) -> None:
    """Add ``decisions`` to ``counts``."""
    counts.denied += decisions.count(DENIED)
    counts.allowed += decisions.count(ALLOWED)
    counts.invalid += decisions.count(INVALID)
    counts.not_ready += decisions.count(NOT_READY)


def encode_decisions(number: int, offset: int, decisions: bytearray) -> bytes:
    """Return the answer to the frame with this correlation id.

    If none of its questions can be decided yet, the answer is an error.
    """
    if NOT_READY in decisions and decisions.count(NOT_READY) == len(decisions):
        return encode_answer(number, ErrorCode.AUTHORIZER_NOT_READY, offset)
    return encode_answer(number, ErrorCode.NONE, offset, decisions)
