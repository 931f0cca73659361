from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Part = tuple[object, ...]


def random_part(chosen: random.Random) -> Part:
    """Return a part whose names, rules and times often equal those of others."""
    names = (f"User:{chosen.choice('ab')}", chosen.choice(["10.0.0.1", None]), "READ", "TOPIC")
    first, last = sorted(chosen.choices(range(3), k=2))
    return (
        *(*names, chosen.choice("xy"), "LITERAL", chosen.random() < 0.5),
        *(chosen.choice(["rule 1", "rule 2", None]), chosen.randint(1, 5)),
        *(datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC)),
    )


def test_tuples_split_and_summed_with_other_parts_are_those_of_all(spark: SparkSession) -> None:
    from authorizerd.replay.ingest.schemas import SUMS_SCHEMA
    from authorizerd.replay.ingest.sums import split_tuples, sum_tuples

    chosen = random.Random(20)
    parts = [random_part(chosen) for _ in range(200)]
    first, second = (
        spark.createDataFrame(some, SUMS_SCHEMA) for some in (parts[:120], parts[120:])
    )
    merged = sum_tuples(split_tuples(sum_tuples(first)).unionByName(second))
    at_once = sum_tuples(first.unionByName(second))
    assert sorted(merged.collect(), key=str) == sorted(at_once.collect(), key=str)
    events = {row.asDict()["principal"]: 0 for row in at_once.collect()}
    for row in merged.collect():
        events[row.principal] += row.allowed_events + row.denied_events
    assert events == {
        name: sum(int(str(part[8])) for part in parts if part[0] == name) for name in events
    }
