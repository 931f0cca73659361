"""Convert the messages of each API from bytes and back.

Source: Kafka 4.4 ApiMessageType.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from authorizerd.acl.steps import Steps, finish
from authorizerd.protocol.kafka import acls, codec, quorum_messages, requests, responses
from authorizerd.protocol.kafka.api import APIS, REQUESTED_APIS, ApiKey, RequestedKey
from authorizerd.protocol.kafka.body_reader import ARRAY_ITEMS_MAX
from authorizerd.protocol.kafka.chunked_output import Chunk

REQUEST_ITEMS_MAX: Final = 10_000
"""The maximum number of items, such as topics, in one request. Every item adds to the answer."""


class Messages(NamedTuple):
    """The classes of an API's request and response."""

    request: type[Any]
    response: type[Any]


def _find(name: str) -> Messages:
    """Return the classes of an API, which are named after it."""
    found = {**vars(requests), **vars(responses), **vars(acls), **vars(quorum_messages)}
    return Messages(found[f"{name}Request"], found[f"{name}Answer"])


MESSAGES: Final[Mapping[RequestedKey, Messages]] = {
    key: _find(api.name) for key, api in REQUESTED_APIS.items()
}

_BULK_APIS: Final = frozenset((ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS))
"""APIs whose requests may have more items: each adds a few bytes to the answer."""


def load_definitions() -> None:
    """Prepare the messages of all served versions, which takes tens of milliseconds.

    A server calls this at startup, so that no request waits for it. A client prepares only the
    versions that it uses.
    """
    for key, api in APIS.items():
        for version in api.versions:
            for message in MESSAGES[key]:
                codec.prepare(message, version, flexible=api.is_flexible(version))


def decode_request(
    api_key: RequestedKey, version: int, body: bytes | bytearray, *, is_exact: bool = False
) -> Steps[Any]:
    """Return, in steps, the request in ``body``.

    Args:
        is_exact: True to reject trailing bytes. Otherwise they are ignored, as in Kafka.

    Raises:
        DecodeError: the request is invalid (Kafka closes the connection), or has too many items.
    """
    items_max = ARRAY_ITEMS_MAX if api_key in _BULK_APIS else REQUEST_ITEMS_MAX
    message, flexible = MESSAGES[api_key].request, _is_flexible(api_key, version)
    return codec.decode(
        message, version, body, flexible=flexible, items_max=items_max, is_exact=is_exact
    )


def decode_response(
    api_key: RequestedKey,
    version: int,
    body: bytes | bytearray,
    *,
    items_max: int = ARRAY_ITEMS_MAX,
    is_exact: bool = False,
) -> Steps[Any]:
    """Return, in steps, the response in ``body``.

    Args:
        items_max: the maximum number of items in all arrays together.
        is_exact: True to reject trailing bytes. Otherwise they are ignored, as in Kafka.

    Raises:
        DecodeError: the bytes are not such a response.
    """
    message, flexible = MESSAGES[api_key].response, _is_flexible(api_key, version)
    return codec.decode(
        message, version, body, flexible=flexible, items_max=items_max, is_exact=is_exact
    )


def encode_request(api_key: RequestedKey, version: int, request: object) -> Steps[bytes]:
    """Return, in steps, the body of ``request``: a message, or an object with its fields.

    Raises:
        ValueError: a string exceeds Kafka's maximum.
    """
    message, flexible = MESSAGES[api_key].request, _is_flexible(api_key, version)
    chunks = yield from codec.encode(message, version, request, flexible=flexible)
    return b"".join(chunks)


def encode_response(api_key: RequestedKey, version: int, response: object) -> Steps[list[Chunk]]:
    """Return, in steps, the body of ``response``: a message, or an object with its fields.

    The body is in chunks.

    Raises:
        ValueError: a string exceeds Kafka's maximum.
    """
    message, flexible = MESSAGES[api_key].response, _is_flexible(api_key, version)
    return codec.encode(message, version, response, flexible=flexible)


def write_request(api_key: RequestedKey, version: int, request: object) -> bytes:
    """Return what ``encode_request`` returns. For small requests, and outside the event loop."""
    return finish(encode_request(api_key, version, request))


def read_response(
    api_key: RequestedKey,
    version: int,
    body: bytes | bytearray,
    *,
    items_max: int = ARRAY_ITEMS_MAX,
    is_exact: bool = False,
) -> Any:  # noqa: ANN401 - of the class of its API
    """Return what ``decode_response`` returns. For small answers, and outside the event loop."""
    return finish(decode_response(api_key, version, body, items_max=items_max, is_exact=is_exact))


def count_items(api_key: RequestedKey, version: int, body: bytes | bytearray) -> int:
    """Return the number of results of a CreateAcls or DeleteAcls, without reading its items.

    An unauthorized request can thus be answered without decoding it.

    Raises:
        DecodeError: the bytes cannot contain that many items. Kafka also closes the connection.
    """
    assert api_key in _BULK_APIS
    message, flexible = MESSAGES[api_key].request, _is_flexible(api_key, version)
    return codec.count_items(message, version, body, flexible=flexible)


@cache
def _is_flexible(api_key: RequestedKey, version: int) -> bool:
    api = REQUESTED_APIS[api_key]
    assert api.serves(version), f"{api.name} has no version {version}"
    return api.is_flexible(version)
