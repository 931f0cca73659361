"""Read the audit events of Confluent Server and Confluent Cloud: CloudEvents in JSON.

**Invariant:** an event is a decision for a request to Kafka, about one of Kafka's own operations
and resource types, in exactly Kafka's spelling.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Any, Final

import msgspec

from authorizerd.acl.audit.recorded.event import UNKNOWN_LEVEL, Event, Reason
from authorizerd.acl.audit.recorded.times import find_head
from authorizerd.acl.model import Operation, ResourceType
from authorizerd.acl.text.decoding_errors import DECODING_ERRORS

_DECISION: Final = "io.confluent.kafka.server/authorization"
_METHOD: Final = "kafka."
_address: Final = re.compile(r"[^/ ]*/([0-9A-Fa-f.:]{2,45})")
"""Java's InetAddress: a host name, which may be empty, and its address."""


def _spell(name: str) -> str:
    return "".join(map(str.capitalize, name.split("_")))


_OPERATIONS: Final = {_spell(each.name): each.name for each in Operation if each > Operation.ALL}
_TYPES: Final = {_spell(each.name): each.name for each in ResourceType if each > ResourceType.ANY}


class _Decided(msgspec.Struct, frozen=True, rename="camel"):
    granted: bool
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    super_user_authorization: bool = False


class _Caller(msgspec.Struct, frozen=True):
    principal: str


class _Request(msgspec.Struct, frozen=True):
    client_address: Any = None


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    method_name: str
    authentication_info: _Caller
    authorization_info: _Decided
    request_metadata: _Request = _Request()


class _Kind(msgspec.Struct, frozen=True):
    specversion: str
    type: str
    data: msgspec.Raw


class _CloudEvent(msgspec.Struct, frozen=True):
    time: str
    data: _Data


_kind_decoder: Final = msgspec.json.Decoder(_Kind)
_decoder: Final = msgspec.json.Decoder(_CloudEvent)


def parse_cloud_event(text: str, zone: tzinfo) -> Event | Reason | None:
    """Return the event of a CloudEvent, or why there is none; None for other JSON."""
    try:
        kind = _kind_decoder.decode(text)
    except DECODING_ERRORS:
        return None
    if kind.type != _DECISION:
        return Reason.OTHER_EVENT
    try:
        event = _decoder.decode(text)
    except DECODING_ERRORS:
        return Reason.UNKNOWN_LAYOUT
    decided, method = event.data.authorization_info, event.data.method_name
    operation = _OPERATIONS.get(decided.operation)
    resource_type = _TYPES.get(decided.resource_type)
    if operation is None or resource_type is None or not method.startswith(_METHOD):
        return Reason.OTHER_EVENT
    if decided.pattern_type != "LITERAL":
        return Reason.UNKNOWN_LAYOUT
    head = find_head(event.time)
    at_ms = head.at_ms(zone) if head else None
    if at_ms is None:
        return Reason.BAD_TIME if head else Reason.NO_TIME
    address = event.data.request_metadata.client_address
    host = _address.fullmatch(address) if isinstance(address, str) else None
    return Event(
        at_ms=at_ms,
        allowed=decided.granted,
        principal=event.data.authentication_info.principal,
        host=host.group(1) if host else None,
        operation=operation,
        resource_type=resource_type,
        resource_name=decided.resource_name,
        pattern_type=decided.pattern_type,
        request=method.removeprefix(_METHOD),
        reference_count=None,
        rule="SuperUser" if decided.super_user_authorization else None,
        level=UNKNOWN_LEVEL,
    )
