"""The Voters record: the addresses of the voting controllers, in clusters with dynamic voters.

Source: KIP-853; Kafka 4.3 VotersRecord (version 0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.primitives import WireReader
from authorizerd.protocol.records.batch import HEADER_SIZE, ControlType, RecordBatch, read_record

Voters = Mapping[int, Mapping[str, tuple[str, int]]]
"""Host and port of each voter by its node id and the listener's name."""

DIRECTORY_ID_SIZE: Final = 16
PORT_SIZE: Final = 2
VERSIONS_SIZE: Final = 4
_ENDPOINT_SIZE_MIN: Final = 5
_VOTER_SIZE_MIN: Final = 27


def decode_voters(batch: RecordBatch) -> Voters | None:
    """Return the voters that a control batch names, or None if it has no such record.

    A record of an unknown version is ignored.

    Raises:
        DecodeError: it cannot be read. The position counts from the batch's start.
    """
    found: Voters | None = None
    position = HEADER_SIZE
    for _ in range(batch.count):
        record = read_record(batch.data, position)
        key = WireReader(batch.data, record.key_start, record.key_end)
        key.int16("control record version")
        if key.int16("control record type") == ControlType.KRAFT_VOTERS:
            found = _decode(WireReader(batch.data, record.value_start, record.value_end))
        position = record.next
    return found


def find_voters(batch: RecordBatch) -> Voters | None:
    """Return the voters that a batch names, or None if there are no readable ones.

    They only help to find a leader, and later ones may be readable.
    """
    try:
        return decode_voters(batch) if batch.is_control else None
    except DecodeError:
        return None


def _decode(reader: WireReader) -> Voters | None:
    if reader.int16("Voters version"):
        return None
    voters: dict[int, dict[str, tuple[str, int]]] = {}
    for _ in range(_count(reader, "voters", _VOTER_SIZE_MIN)):
        node_id = reader.int32("voter's id")
        reader.take(DIRECTORY_ID_SIZE, "voter's directory id")
        endpoints = voters[node_id] = {}
        for _ in range(_count(reader, "endpoints", _ENDPOINT_SIZE_MIN)):
            name, host = reader.compact_string("listener name"), reader.compact_string("host")
            endpoints[name] = host, int.from_bytes(reader.take(PORT_SIZE, "port"), "big")
            reader.tagged_fields()
        reader.take(VERSIONS_SIZE, "versions of kraft.version")
        reader.tagged_fields()  # of the versions
        reader.tagged_fields()
    reader.tagged_fields()
    reader.expect_end("Voters")
    return voters


def _count(reader: WireReader, what: str, size_min: int) -> int:
    count = reader.unsigned_varint(f"number of {what}") - 1
    if count > reader.remaining // size_min:
        raise DecodeError(
            f"{what}: {count} announced, {reader.remaining} bytes left", reader.position
        )
    return count
