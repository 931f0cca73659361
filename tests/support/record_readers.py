"""Both readers of a batch's records, with their errors."""

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import HEADER_SIZE, RecordBatch, read_record
from authorizerd.protocol.records.fast_reader import Texts, read_records
from authorizerd.protocol.records.metadata import MetadataRecord, decode_value
from authorizerd.protocol.records.nodes import decode_node

Outcome = list[MetadataRecord] | str


def read_general(batch: RecordBatch) -> Outcome:
    """Return the records of a batch by the general decoder, or its error."""
    found = []
    position = HEADER_SIZE
    try:
        for _ in range(batch.count):
            place = read_record(batch.data, position)
            start, end = place.value_start, place.value_end
            record = decode_value(batch.data, start, end) or decode_node(batch.data, start, end)
            if record is not None:
                found.append(record)
            position = place.next
        if position != len(batch.data):
            raise DecodeError("bytes follow the last record of the batch", position)
    except DecodeError as error:
        return str(error)
    return found


def read_fast(batch: RecordBatch) -> Outcome:
    try:
        return [record for piece in read_records(batch, Texts()) for record in piece]
    except DecodeError as error:
        return str(error)
