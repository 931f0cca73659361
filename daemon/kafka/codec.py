"""Read Kafka clients' requests and write the answers, yielding to other tasks."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import msgspec

from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.steps import finish_in_turns
from authorizerd.protocol.kafka.arrays import free_arrays
from authorizerd.protocol.kafka.chunked_output import Chunk
from authorizerd.protocol.kafka.envelope import Forwarded, open_envelope
from authorizerd.protocol.kafka.error_codes import ApiError
from authorizerd.protocol.kafka.messages import decode_request, encode_response
from authorizerd.protocol.kafka.refusals import refuse, repeats_items
from authorizerd.protocol.kafka.server_connection import KafkaRequest

Answer: TypeAlias = tuple[list[Chunk], float]
"""A body in chunks, and the seconds that its request waited in purgatory."""


class Waited(NamedTuple):
    """An answer whose request waited in purgatory, and the seconds that it waited."""

    answer: object
    seconds: float


def version_of(context: RequestContext) -> int:
    """Return the version of a Kafka request."""
    assert context.request_version is not None, "only decision ports have none"
    return context.request_version


async def read_body(request: KafkaRequest) -> Any:  # noqa: ANN401 - of the class of its API
    """Return the decoded request. ``protocol.kafka.messages`` chooses the class.

    Raises:
        DecodeError: the request is invalid. As in Kafka, the connection is then closed.
    """
    return await finish_in_turns(decode_request(request.api_key, request.api_version, request.body))


async def open_forwarded(body: bytes | bytearray) -> Forwarded:
    """Return the contents of an Envelope. Raises as ``open_envelope``."""
    return await finish_in_turns(open_envelope(body))


async def free_body(asked: msgspec.Struct) -> None:
    """Empty the arrays of a decoded request: freeing many items at once would block the loop."""
    await finish_in_turns(free_arrays(msgspec.structs.astuple(asked)))


async def write_body(request: KafkaRequest, answer: object) -> list[Chunk]:
    """Return the body that answers ``request``, with the fields of the request's version."""
    return await finish_in_turns(encode_response(request.api_key, request.api_version, answer))


async def refuse_all(request: KafkaRequest, error: ApiError) -> list[Chunk]:
    """Return the body that answers the whole request with an error. Raises as ``read_body``."""
    asked = None
    if repeats_items(request.api_key, request.api_version):
        asked = await read_body(request)
    return await write_body(request, refuse(request, error, asked))
