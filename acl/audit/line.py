"""The text of an audit line, identical to that of Kafka's ``kafka.authorizer.logger``.

Source: KIP-504; Kafka 4.3 StandardAuthorizerData.buildAuditMessage and logAuditMessage.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from authorizerd.acl.decision import Decision
from authorizerd.acl.model import Operation, PatternType, Question, ResourceType

LOGGER_NAME: Final = "kafka.authorizer.logger"

# Kafka's audit lines write TransactionalId, not TRANSACTIONAL_ID.
AUDITED_RESOURCE_NAMES: Final[dict[int, str]] = {
    code: "".join(word.capitalize() for word in code.name.split("_")) for code in ResourceType
}


class AuditLevel(IntEnum):
    """The levels of the audit logger, in log4j's order.

    The logger writes lines at its level or above.
    """

    TRACE = 0
    DEBUG = 1
    INFO = 2


def audit_level(
    allowed: bool, log_if_allowed: bool = True, log_if_denied: bool = True
) -> AuditLevel:
    """Return the level of a decision's line: DEBUG if allowed, INFO if denied.

    If the flag for such a decision is False, the level is TRACE.
    """
    if allowed:
        return AuditLevel.DEBUG if log_if_allowed else AuditLevel.TRACE
    return AuditLevel.INFO if log_if_denied else AuditLevel.TRACE


def audit_message(
    question: Question,
    decision: Decision,
    request_name: str,
    resource_reference_count: int = 1,
    pattern_type: PatternType = PatternType.LITERAL,
) -> str:
    """Return the text of the audit line, without time, level and logger.

    An unknown host is written as ``unknown``. Kafka never writes that, since a broker knows every
    host.
    """
    return (
        f"Principal = {question.principal} is {'Allowed' if decision.allowed else 'Denied'} "
        f"operation = {Operation.read(question.operation).name} "
        f"from host = {'unknown' if question.host is None else question.host} "
        f"on resource = {AUDITED_RESOURCE_NAMES[question.resource_type]}:{pattern_type.name}:"
        f"{question.resource_name} "
        f"for request = {request_name} "
        f"with resourceRefCount = {resource_reference_count} "
        f"based on rule {decision.rule}"
    )
