"""DescribeClientQuotas: kafka-configs sends it before it describes a user's SCRAM credentials.

The daemon enforces no quotas, so it lists none. Quotas that a Kafka controller has written to the
log stay there, but are not read.

Source: KIP-546; Kafka 4.3 ClientQuotasImage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from authorizerd.acl.model import Operation
from authorizerd.actors.authorizer import Authorizer, RequestContext
from authorizerd.daemon.kafka.permissions import UNEXPLAINED, RefusedError, Rights
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.requests import DescribeClientQuotasRequest, QuotaFilterComponent
from authorizerd.protocol.kafka.responses import DescribeClientQuotasAnswer

_IP: Final = "ip"
_ENTITY_TYPES: Final = frozenset((_IP, "user", "client-id"))
_EXACT: Final = 0
_MATCH_TYPES_WITHOUT_NAME: Final = {1: "MATCH_TYPE_DEFAULT", 2: "MATCH_TYPE_SPECIFIED"}
_MIXED: Final = (
    "Invalid entity filter component combination. IP filter component should not be used with "
    "user or clientId filter component."
)


class QuotaHandlers:
    """Answer DescribeClientQuotas."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._rights = Rights(authorizer)

    async def describe(
        self, asked: DescribeClientQuotasRequest, context: RequestContext
    ) -> DescribeClientQuotasAnswer:
        self._rights.require(context, Operation.DESCRIBE_CONFIGS, UNEXPLAINED)
        error = _filter_error(asked.components)
        if error is not None:
            raise RefusedError(error)
        return DescribeClientQuotasAnswer()


def _filter_error(components: Sequence[QuotaFilterComponent]) -> ApiError | None:
    """Return the first error, or None. At most four components are read: there are three types, and
    none may be repeated."""
    seen: set[str] = set()
    for component in components:
        error = _component_error(component, seen)
        if error is not None:
            return error
        seen.add(component.entity_type)
    return _invalid(_MIXED) if _IP in seen and len(seen) > 1 else None


def _component_error(component: QuotaFilterComponent, seen: set[str]) -> ApiError | None:
    entity_type, match_type = component.entity_type, component.match_type
    if not entity_type:
        return _invalid("Invalid empty entity type.")
    if entity_type in seen:
        return _invalid(f"Entity type {entity_type} cannot appear more than once in the filter.")
    if entity_type not in _ENTITY_TYPES:
        return ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {entity_type}")
    if match_type == _EXACT:
        if component.match is None:
            return _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif match_type not in _MATCH_TYPES_WITHOUT_NAME:
        return _invalid(f"Unknown match type {match_type}")
    elif component.match is not None:
        name = _MATCH_TYPES_WITHOUT_NAME[match_type]
        return _invalid(f"Request specified {name}, but also specified a match string.")
    return None


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)
