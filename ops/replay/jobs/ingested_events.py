"""What every job asks of the events that it is to read: that an ingest wrote and accepted them."""

from __future__ import annotations

import msgspec
from pyspark.sql import SparkSession

from ops.replay.events.ingested import Ingested, decode_ingested
from ops.replay.jobs.errors import JobError
from ops.replay.jobs.files import read_text


def read_accepted(spark: SparkSession, events: str) -> Ingested:
    """Return the figures of the ingest that wrote ``events``.

    Raises:
        JobError: none did, or it set aside more lines than it accepts.
        OSError: its ``ingest.json`` cannot be read.
    """
    place = f"{events}/ingest.json"
    try:
        ingested = decode_ingested(read_text(spark, place))
    except FileNotFoundError as error:
        raise JobError(f"--events: {events} is not what an ingest wrote: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JobError(f"--events: {place}: {error}") from error
    if not ingested.accepted:
        raise JobError(
            f"--events: {events}: {ingested.set_aside} of {ingested.lines} lines were set aside, "
            "more than its ingest accepted: nothing can be told from the rest"
        )
    return ingested
