"""Check events before a job reads them: an ingest must have written and accepted them."""

from __future__ import annotations

import msgspec
from pyspark.sql import SparkSession

from authorizerd.replay.ingest.report import Ingested, decode_ingested
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.files import read_text


def read_accepted(spark: SparkSession, events: str, *, option: str = "--events") -> Ingested:
    """Return the figures of the ingest that wrote ``events``, the directory given by ``option``.

    Raises:
        JobError: no ingest wrote it, or the ingest was not accepted.
        OSError: its ``ingest.json`` cannot be read.
    """
    place = f"{events}/ingest.json"
    try:
        ingested = decode_ingested(read_text(spark, place))
    except FileNotFoundError as error:
        raise JobError(f"{option}: {events}: expected the output of ingest: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JobError(f"{option}: {place}: {error}") from error
    if not ingested.accepted:
        raise JobError(
            f"{option}: {events}: this ingest was not accepted: it set aside {ingested.set_aside} "
            f"of {ingested.lines} lines. Fix the causes, or ingest with a higher --max-bad-ratio"
        )
    return ingested
