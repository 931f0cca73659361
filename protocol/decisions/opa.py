"""The questions that Kafka's OPA plugin asks through OPA's data API.

**Invariant:** a question is built only from explicit fields; anything else is an error that names
the field. The plugin caches any JSON without a true result as a denial, so answers that are not
decisions must be plain text.

Source: org.openpolicyagent.kafka:opa-authorizer 1.5.1 (OpaAuthorizer, RequestSerializer).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import OPERATIONS, RESOURCE_TYPES, Operation, ResourceType
from authorizerd.protocol.decisions.json_keys import (
    QUESTION_BYTES_MAX,
    JsonKeysError,
    check_keys,
    has_only,
)
from authorizerd.protocol.json_faults import JSON_ERRORS, describe_json_fault
from authorizerd.protocol.kafka.api_names import API_NAMES

ALLOWED: Final = b'{"result":true}'
DENIED: Final = b'{"result":false}'

_OPERATIONS: Final = {Operation(code).name: code for code in OPERATIONS}
_RESOURCE_TYPES: Final = {ResourceType(code).name: code for code in RESOURCE_TYPES}
_TOKEN: Final = "token="  # noqa: S105 - the name of a parameter


class OpaError(Exception):
    """A request that cannot be answered.

    The text names the field, but does not show its contents.
    """


class OpaQuestion(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """May ``principal`` do this to ``resource_name``, or to some resource if that is None?

    ``request_name`` is the broker's API, or None if it is not known. The last three fields are for
    the audit log.
    """

    principal: str
    host: str
    operation: int
    resource_type: int
    resource_name: str | None
    request_name: str | None
    resource_reference_count: int
    log_if_allowed: bool
    log_if_denied: bool


class _OpaPrincipal(msgspec.Struct, gc=False, rename="camel"):
    """The principal that the question is about."""

    principal_type: str
    name: str


Ignored = TypeVar("Ignored", bound=Any)
"""The type of a field that the plugin sends, and that is ignored.

It is decoded so that ``has_only`` is true, or kept raw if it cannot be decoded: a number may have
too many digits.
"""


class _OpaHeaderData(msgspec.Struct, Generic[Ignored], gc=False, rename="camel"):
    """A request's header. The audit log shows the key of its API."""

    request_api_key: int | UnsetType | None = UNSET
    request_api_version: Ignored | UnsetType = UNSET
    client_id: Ignored | UnsetType = UNSET
    correlation_id: Ignored | UnsetType = UNSET


class _OpaHeader(msgspec.Struct, Generic[Ignored], gc=False, rename="camel"):
    """The header's data, which the plugin sends as ``name`` but documents as ``data``."""

    name: _OpaHeaderData[Ignored] | UnsetType | None = UNSET
    data: _OpaHeaderData[Ignored] | UnsetType | None = UNSET
    header_version: Ignored | UnsetType = UNSET


class _OpaRequestContext(msgspec.Struct, Generic[Ignored], gc=False, rename="camel"):
    """The sender of a request to the broker, and its address."""

    client_address: str
    principal: _OpaPrincipal
    header: _OpaHeader[Ignored] | UnsetType | None = UNSET
    client_information: Ignored | UnsetType = UNSET
    connection_id: Ignored | UnsetType = UNSET
    listener_name: Ignored | UnsetType = UNSET
    security_protocol: Ignored | UnsetType = UNSET


class _OpaResourcePattern(msgspec.Struct, Generic[Ignored], gc=False, rename="camel"):
    """The resource that the question is about."""

    resource_type: str
    name: str
    pattern_type: str
    unknown: Ignored | UnsetType = UNSET


class _OpaAction(msgspec.Struct, Generic[Ignored], gc=False, rename="camel"):
    """The operation of the principal. The fields after ``operation`` are for the audit log."""

    resource_pattern: _OpaResourcePattern[Ignored]
    operation: str
    resource_reference_count: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType = UNSET
    log_if_allowed: bool | UnsetType = UNSET
    log_if_denied: bool | UnsetType = UNSET


class _OpaInput(msgspec.Struct, Generic[Ignored], gc=False, rename="camel"):
    """A question, as Kafka's OPA plugin writes it."""

    request_context: _OpaRequestContext[Ignored]
    action: _OpaAction[Ignored]


class OpaQuery(msgspec.Struct, Generic[Ignored], gc=False):
    """A request to OPA's data API."""

    input: _OpaInput[Ignored]


_decode: Final = msgspec.json.Decoder(OpaQuery[Any], float_hook=len).decode
_decode_used: Final = msgspec.json.Decoder(OpaQuery[msgspec.Raw]).decode


def decode_question(body: bytes) -> OpaQuestion:
    """Return the question in a JSON text. Unknown fields are ignored.

    Raises:
        OpaError: it is not JSON, a field is missing or has the wrong type, an object names a key
            twice, or an operation or type is unknown, possibly from a newer broker.
    """
    try:
        query: OpaQuery[Any]
        try:
            query = _decode(body)
            is_checked = len(body) <= QUESTION_BYTES_MAX and has_only(body, query)
        except JSON_ERRORS:  # perhaps of an ignored field
            query, is_checked = _decode_used(body), False
        if not is_checked:
            check_keys(body)
    except JSON_ERRORS as error:
        raise OpaError(describe_json_fault(error)) from None
    except JsonKeysError as error:
        raise OpaError(str(error)) from None
    context, action = query.input.request_context, query.input.action
    pattern, count = action.resource_pattern, action.resource_reference_count
    operation = _OPERATIONS.get(action.operation)
    if operation is None:
        raise OpaError(f"input.action.operation: expected one of {', '.join(_OPERATIONS)}")
    resource_type = _RESOURCE_TYPES.get(pattern.resource_type)
    if resource_type is None:
        field = "input.action.resourcePattern.resourceType"
        raise OpaError(f"{field}: expected one of {', '.join(_RESOURCE_TYPES)}")
    return OpaQuestion(
        principal=_principal_of(context.principal),
        host=_host_of(context.client_address),
        operation=operation,
        resource_type=resource_type,
        resource_name=_resource_name_of(pattern),
        request_name=_request_name_of(context.header),
        resource_reference_count=1 if count is UNSET else count,
        log_if_allowed=action.log_if_allowed is not False,
        log_if_denied=action.log_if_denied is not False,
    )


def _principal_of(principal: _OpaPrincipal) -> str:
    """Return ``Type:name``. A colon in the type is rejected: it could imitate another principal."""
    if ":" in principal.principal_type:
        raise OpaError(
            "input.requestContext.principal.principalType: expected a text without a colon"
        )
    return f"{principal.principal_type}:{principal.name}"


def _host_of(client_address: str) -> str:
    """Return the address that Java's ``InetAddress.toString`` writes after an optional name."""
    host = host_address(client_address.rpartition("/")[2])
    if host is None:
        raise OpaError("input.requestContext.clientAddress: expected an IP address")
    return host


def _resource_name_of(pattern: _OpaResourcePattern[Any]) -> str | None:
    """Return the resource's name, or None for authorizeByResourceType (an empty prefix)."""
    if pattern.pattern_type == "LITERAL":
        return pattern.name
    if pattern.pattern_type == "PREFIXED" and not pattern.name:
        return None
    field = "input.action.resourcePattern.patternType"
    raise OpaError(f"{field}: expected LITERAL, or PREFIXED with an empty name")


def _request_name_of(header: _OpaHeader[Any] | UnsetType | None) -> str | None:
    data = (header.name or header.data) if header else None
    key = data.request_api_key if data else None
    return None if key is None or key is UNSET else API_NAMES.get(key)


def token_in_query(query: str) -> str | None:
    """Return the query parameter ``token``. The plugin cannot send custom headers.

    Percent signs are not decoded, since no character of a token needs one.

    Raises:
        OpaError: there are several tokens. A proxy may have checked a different one.
    """
    if not query:
        return None
    found = [each for each in query.split("&") if each.startswith(_TOKEN)]
    if len(found) > 1:
        raise OpaError("token: expected a single token parameter in the URL, found several")
    return found[0].removeprefix(_TOKEN) if found else None
