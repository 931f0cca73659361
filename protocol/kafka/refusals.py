"""Build the answer that refuses a request, with the error in every error field of the response.

A top-level error field gets the error. A response with an error per item gets one for each item of
the request, with the names from the request.

**Invariant:** a request is not decoded if its answer needs at most the number of its items, so
refusing it is cheap.

Source: KIP-801; Kafka 4.3 AbstractRequest.getErrorResponse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from authorizerd.protocol.kafka.acls import ErrorTexts, FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.chunked_output import Items, LazyItems
from authorizerd.protocol.kafka.error_codes import TEXT_CHARACTERS_MAX, ApiError, ErrorCode
from authorizerd.protocol.kafka.messages import MESSAGES, count_items
from authorizerd.protocol.kafka.server_connection import KafkaRequest
from authorizerd.protocol.kafka.wire_types import Field, fields_of

_COUNTED: Final = (ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
_NAMES: Final = frozenset(("group_id", "key", "user"))
"""The response fields that contain an item's name, whatever its name in the request."""


def repeats_items(api_key: ApiKey, version: int) -> bool:
    """Return True if refusing a request takes an error for each of its decoded items."""
    response = fields_of(cast("type", MESSAGES[api_key].response))
    return api_key not in _COUNTED and any(_has_errors(field, version) for field in response)


def refuse(request: KafkaRequest, error: ApiError, asked: object) -> object:
    """Return the answer to a whole request with ``error``.

    Args:
        asked: the decoded request if its items are repeated, see ``repeats_items``.

    Raises:
        DecodeError: the request is invalid. As in Kafka, the connection is then closed.
    """
    if (request.api_key, request.api_version) == (ApiKey.ENVELOPE, 0):
        error = _without_801(error)
    text = None if error.message is None else error.message[:TEXT_CHARACTERS_MAX]
    response = MESSAGES[request.api_key].response
    values: dict[str, object] = {}
    for field in fields_of(cast("type", response)):
        match field.name:
            case "error_code":
                values[field.name] = error.code
            case "error_message":
                values[field.name] = text
            case "error":
                values[field.name] = ErrorTexts().limit(error)
            case "results" if request.api_key in _COUNTED:
                values[field.name] = _refuse_counted(request, error)
            case _ if field.type.is_array and field.only.tag is None:
                values[field.name] = _refuse_items(request, field, error.code, text, asked)
    return response(**values)


def _without_801(error: ApiError) -> ApiError:
    """Return the error as version 0 of Envelope can express it (KIP-801)."""
    if error.code == ErrorCode.AUTHORIZER_NOT_READY:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return error


def _refuse_counted(request: KafkaRequest, error: ApiError) -> Items[object]:
    """Return as many results as the request has items."""
    texts = ErrorTexts()
    count = range(count_items(request.api_key, request.api_version, request.body))
    if request.api_key is ApiKey.DELETE_ACLS:
        return LazyItems(lambda _: FilterResult(error=texts.limit(error)), count)
    return LazyItems(lambda _: texts.limit(error), count)


def _has_errors(field: Field, version: int) -> bool:
    """Return True for an array of structures with an error each."""
    item = field.type.item
    return (
        field.type.is_array
        and field.only.tag is None
        and field.only.until >= version
        and isinstance(item, type)
        and any(each.name == "error_code" for each in fields_of(item))
    )


def _refuse_items(
    request: KafkaRequest, field: Field, code: int, text: str | None, refused: object
) -> object:
    """Return the items of an array of the response."""
    item = field.type.item
    if not _has_errors(field, request.api_version):
        is_null = isinstance(item, type) and field.only.until >= request.api_version
        return None if is_null and field.type.is_nullable else ()
    assert isinstance(item, type)
    fields = fields_of(item)

    def refuse_item(asked: object) -> object:
        values: dict[str, object] = {"error_code": code}
        for each in fields:
            if each.name == "error_message":
                values[each.name] = text
            elif each.name in _NAMES:
                values[each.name] = _name_of(asked)
            elif hasattr(asked, each.name):
                value = getattr(asked, each.name)
                is_text = value is None and request.api_version < each.only.nullable_since
                values[each.name] = "" if is_text else value
        return item(**values)

    return LazyItems(refuse_item, _items_of(request, refused))


def _items_of(request: KafkaRequest, asked: object) -> Sequence[object]:
    """Return the items that a request names. Each item is returned once."""
    arrays = [
        getattr(asked, field.name) or ()
        for field in fields_of(cast("type", MESSAGES[request.api_key].request))
        if field.type.is_array
    ]
    if len(arrays) == 1:
        items: Sequence[object] = arrays[0]
        return items
    return [*{each.name: each for array in arrays for each in array}.values()]


def _name_of(asked: Any) -> object:  # noqa: ANN401 - a name, or a structure with one
    return asked if isinstance(asked, str) else asked.name
