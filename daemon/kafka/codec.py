"""Decode and encode the small bodies of Kafka requests and answers, as kio's entities."""

from __future__ import annotations

from typing import Any, TypeAlias

from authorizerd.actors.steps import finish_in_turns
from authorizerd.protocol.kafka.api import decode_request, encode_response
from authorizerd.protocol.kafka.chunked_output import Chunk
from authorizerd.protocol.kafka.server_connection import KafkaRequest

Answer: TypeAlias = tuple[list[Chunk], float]
"""A body in chunks, and the seconds that its request waited in purgatory."""


async def read_body(request: KafkaRequest) -> Any:  # noqa: ANN401 - an entity of any version
    """Return kio's entity of the request's API and version; see ``requests`` for its fields.

    Raises:
        DecodeError: the request is invalid. As in Kafka, the connection is then closed.
    """
    return await finish_in_turns(decode_request(request.api_key, request.api_version, request.body))


async def write_body(request: KafkaRequest, answer: object) -> list[Chunk]:
    """Return the body that answers ``request``, with the fields of the request's version."""
    steps = encode_response(request.api_key, request.api_version, answer)
    chunks: list[Chunk] = [*await finish_in_turns(steps)]
    return chunks
