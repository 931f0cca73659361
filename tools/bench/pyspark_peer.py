"""A peer of replay: the PySpark job that one would write for this task alone.

    spark-submit pyspark_peer.py ingest DIRECTORY LOGS
    spark-submit pyspark_peer.py whatif DIRECTORY ACLS

It imports nothing of this project, knows one layout of lines, and recovers from nothing.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

FIELDS = ("at", "principal", "decision", "operation", "host", "kind", "name", "rule")
LINE = (
    r"^\[(?P<at>[^\]]+)\] \w+ Principal = (?P<principal>.*) is (?P<decision>Allowed|Denied) "
    r"operation = (?P<operation>\w+) from host = (?P<host>\S+) on resource = (?P<kind>\w+):LITERAL:"
    r"(?P<name>.*) for request = \w+ with resourceRefCount = \d+ based on rule (?P<rule>.*) \(kafka"
)
Batches = Iterator[pa.RecordBatch]
Patterns = defaultdict[tuple[str, ...], set[str]]
REQUEST = ("principal", "host", "operation", "kind", "name")


def parse(batches: Batches) -> Batches:
    for batch in batches:
        found = pc.extract_regex(batch.column("value"), LINE)
        yield pa.RecordBatch.from_arrays([pc.struct_field(found, f) for f in FIELDS], names=FIELDS)


def ingest(spark: SparkSession, place: str, logs: str) -> None:
    lines = spark.read.text(f"{logs}/*.log")
    events = lines.mapInArrow(parse, ", ".join(f"{field} string" for field in FIELDS))
    events = events.where("principal is not null")
    at = sql.to_timestamp("at", "yyyy-MM-dd HH:mm:ss,SSS")
    events = events.withColumn("at", at).withColumn("day", sql.to_date("at"))
    events.write.partitionBy("day").mode("overwrite").parquet(f"{place}/events")
    is_allowed = sql.col("decision") == "Allowed"
    requests = (
        spark.read.parquet(f"{place}/events")
        .groupBy(*REQUEST)
        .agg(sql.count("*").alias("events"), sql.count_if(is_allowed).alias("allowed"))
    )
    requests.write.mode("overwrite").parquet(f"{place}/requests")


def whatif(spark: SparkSession, place: str, acls: str) -> None:
    names: Patterns = defaultdict(set)
    prefixes: Patterns = defaultdict(set)
    for line in Path(acls).read_text().splitlines():
        principal, operation, kind, pattern_type, name = line.split("\t")
        patterns = prefixes if pattern_type == "PREFIXED" else names
        patterns[principal, operation, kind].add(name)
    shared = spark.sparkContext.broadcast((dict(names), dict(prefixes)))

    def judge(batches: Batches) -> Batches:
        names, prefixes = shared.value
        for batch in batches:
            kept = []
            rows = zip(*(batch.column(f).to_pylist() for f in REQUEST), strict=True)
            for number, (principal, _, operation, kind, name) in enumerate(rows):
                key = principal, operation, kind
                is_allowed = name in names.get(key, ()) or any(
                    name.startswith(prefix) for prefix in prefixes.get(key, ())
                )
                if not is_allowed:
                    kept.append(number)
            yield batch.take(pa.array(kept, pa.int64()))

    requests = spark.read.parquet(f"{place}/requests")
    denied = requests.mapInArrow(judge, requests.schema).where("allowed > 0")
    denied.write.mode("overwrite").parquet(f"{place}/newly_denied")
    ((lines, tuples),) = requests.agg(sql.sum("events"), sql.count("*")).collect()
    found = spark.read.parquet(f"{place}/newly_denied")
    ((newly_denied,),) = found.agg(sql.sum("allowed")).collect()
    counts = {"lines": lines, "tuples": tuples, "newly_denied": newly_denied or 0}
    Path(place, "counts.json").write_text(json.dumps(counts))


if __name__ == "__main__":
    session = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    {"ingest": ingest, "whatif": whatif}[sys.argv[1]](session, *sys.argv[2:])
    session.stop()
