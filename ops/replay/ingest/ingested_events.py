"""What every job asks of recorded events that it is to read: that their ingest accepted them."""

from __future__ import annotations

import msgspec
from pyspark.sql import SparkSession

from authorizerd.replay.ingest.report import Ingested, decode_ingested
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.files import read_text


def read_accepted(spark: SparkSession, events: str, *, option: str = "--events") -> Ingested:
    """Return the figures of the ingest that wrote ``events``, a directory that ``option`` named.

    Raises:
        JobError: none did, or it set aside more lines than it accepts.
        OSError: its ``ingest.json`` cannot be read.
    """
    place = f"{events}/ingest.json"
    try:
        ingested = decode_ingested(read_text(spark, place))
    except FileNotFoundError as error:
        raise JobError(f"{option}: {events} is not what an ingest wrote: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JobError(f"{option}: {place}: {error}") from error
    if not ingested.accepted:
        raise JobError(
            f"{option}: {events}: not accepted: {ingested.set_aside} of {ingested.lines} lines "
            "were set aside, more than its ingest accepted: nothing can be told from the rest"
        )
    return ingested
