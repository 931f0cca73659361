"""Lines to events in Spark's own expressions: many times as fast as Python row by row.

Law: it reads every line as ``ops.replay.events.line.parse_line`` does, reason for reason. One
regular expression joins the fields with a character that no line holds, one split takes them
apart; no step of it can go back over what it has passed (atomic groups), or a name made of markers
would cost time that grows with its square.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from ops.replay.events.event import (
    LINE_BYTES_MAX,
    SEPARATOR,
    UNKNOWN_HOST,
    UNKNOWN_LEVEL,
    Reason,
)
from ops.replay.events.kafka_line import (
    OPERATIONS,
    PARTIAL,
    PATTERN_TYPES,
    PRINCIPAL,
    SINGLE_MARKERS,
    TAIL,
    VERDICTS,
)
from ops.replay.events.line import CRI_JSON, DOCKER_JSON
from ops.replay.events.times import HEAD, OFFSET, ZERO_ZONES

EVENT_COLUMNS: Final = (
    "at",
    "allowed",
    "principal",
    "host",
    "operation",
    "resource_type",
    "resource_name",
    "pattern_type",
    "request",
    "reference_count",
    "rule",
    "level",
)

_LINE: Final = (
    r"(?s)^(?>(.*?)Principal = )(?>(.*?) is (Allowed|Denied) )[oO]peration = "
    r"(?>([A-Za-z_]+) from host = )(?>(.*?) on resource = )(?>([A-Za-z_]+):)"
    rf"(?>({'|'.join(PATTERN_TYPES)}):|)"
    r"(?>(?>(.*?) for request = )(?>(.*?) with resourceRefCount = )(?>([0-9]{1,9}))"
    rf"(?> based on rule (?>(.*){TAIL}\z|(.*)\z)|(?:{TAIL})?\z)"
    rf"|(.*){TAIL}\z|(.*)\z)"
)
_JOINED: Final = SEPARATOR.join(
    # before, principal, verdict, operation, host, type, pattern, name, request, count, rule
    ("", "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8$13$14", "$9", "$10", "$11$12", "")
)
# In the joined fields: a marker that is left over may share its blanks with those that are gone.
_LEFT_OVER: Final = (
    rf"[ {SEPARATOR}](?:is (?:Allowed|Denied)|[oO]peration =|from host =|on resource =|"
    rf"for request =|with resourceRefCount =|based on rule)[ {SEPARATOR}]"
    rf"|Principal =[ {SEPARATOR}]"
)
_HEAD_JOINED: Final = SEPARATOR.join(("", "$1 $2.$3", "$4", "$5"))
_JSON_FIELDS: Final = (
    "time string, principal string, allowed boolean, operation string, resource_type string, "
    "resource_name string, level string, host string, request string, "
    "resource_reference_count int, rule string, acl string, masked array<string>, _corrupt string"
)
_JSON_OPTIONS: Final = {
    "columnNameOfCorruptRecord": "_corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
_REQUIRED: Final = ("time", "principal", "allowed", "operation", "resource_type", "resource_name")


def parse_lines(lines: DataFrame, line_format: str, time_zone: str) -> DataFrame:
    """Return ``lines`` with ``reason`` (null: an event; empty: a blank line) and event columns.

    ``lines`` has ``line``, whose bytes need not be UTF-8, and ``fault``, the reason why a line is
    not to be read, or null. The session's time zone is UTC.
    """
    text = sql.col("text")
    readable = sql.octet_length("line") <= LINE_BYTES_MAX
    separated = lines.select("*", sql.when(readable, _unwrapped(sql.col("line"))).alias("text"))
    kinds = separated.select("*", _is_json(text, line_format).alias("is_json"))
    is_json = sql.col("is_json")
    joined = kinds.select(
        "*",
        sql.when(~is_json, sql.regexp_replace(text, _LINE, _JOINED)).alias("joined"),
        sql.when(is_json, sql.from_json(text, _JSON_FIELDS, _JSON_OPTIONS)).alias("json"),
    )
    split = joined.select("*", sql.split("joined", SEPARATOR).alias("part"))
    before = sql.when(is_json, sql.col("json.time")).otherwise(_part(1))
    heads = split.select("*", sql.regexp_replace(before, HEAD, _HEAD_JOINED).alias("joined_head"))
    moments = heads.select("*", sql.split("joined_head", SEPARATOR).alias("head"))
    timed = moments.select("*", _at(time_zone).alias("at"))
    return timed.select(*lines.columns, _reason().alias("reason"), *_fields())


def _unwrapped(line: Column) -> Column:
    stripped = sql.rtrim(line, sql.lit("\r\n"))
    docker = sql.from_json(stripped, "log string, time string, _corrupt string", _JSON_OPTIONS)
    inner = sql.rtrim(docker["log"], sql.lit("\r\n"))
    of_docker = sql.when(docker["_corrupt"].isNotNull(), None).otherwise(
        sql.when(inner.startswith("{") & docker["time"].isNotNull(), inner).otherwise(
            sql.concat(docker["time"], sql.lit(" "), inner)
        )
    )
    of_cri = sql.regexp_replace(stripped, CRI_JSON, "{")
    return (
        sql.when(stripped.startswith(DOCKER_JSON), of_docker)
        .when(stripped.contains(" F {"), of_cri)
        .otherwise(stripped)
    )


def _is_json(text: Column, line_format: str) -> Column:
    if line_format == "auto":
        return sql.coalesce(text.startswith("{"), sql.lit(False))
    return sql.lit(line_format == "json")


def _part(index: int) -> Column:
    return sql.get("part", sql.lit(index))


def _head(index: int) -> Column:
    return sql.get("head", sql.lit(index))


def _at(time_zone: str) -> Column:
    """Return the instant; null where there is no such time, or it is of an unknown zone."""
    local, own_zone = _head(1), _head(2)
    here = local.try_cast("timestamp")
    if time_zone not in ZERO_ZONES:
        here = sql.to_utc_timestamp(here, time_zone)
    return (
        sql.when(own_zone == "", here)
        .when(own_zone.isin(*ZERO_ZONES), local.try_cast("timestamp"))
        .when(own_zone.rlike(OFFSET), sql.concat(local, own_zone).try_cast("timestamp"))
    )


def _reason() -> Column:
    text, json = sql.col("text"), sql.col("json")
    is_missing = reduce(Column.__or__, (json[name].isNull() for name in _REQUIRED))
    of_json = (
        sql.when(json["_corrupt"].isNotNull() | is_missing, Reason.BAD_JSON)
        .when(sql.size(json["masked"]) > 0, Reason.MASKED)
        .when(_head(1).isNull(), Reason.NO_TIME)
        .when(sql.col("at").isNull(), Reason.BAD_TIME)
    )
    has_verdict = reduce(Column.__or__, (text.contains(verdict) for verdict in VERDICTS))
    of_kafka = (
        sql.when(
            _part(1).isNull(),
            sql.when(~text.contains(PRINCIPAL) | ~has_verdict, Reason.NO_DECISION)
            .when(_stands_twice(text), Reason.AMBIGUOUS)
            .otherwise(Reason.UNKNOWN_LAYOUT),
        )
        .when(sql.col("joined").rlike(_LEFT_OVER), Reason.AMBIGUOUS)
        .when(_part(1).rlike(PARTIAL.pattern), Reason.PARTIAL_LINE)
        .when(_head(1).isNull(), Reason.NO_TIME)
        .when(sql.col("at").isNull(), Reason.BAD_TIME)
    )
    return (
        sql.when(sql.col("fault").isNotNull(), sql.col("fault"))
        .when(sql.octet_length("line") > LINE_BYTES_MAX, Reason.TOO_LONG)
        .when(~sql.is_valid_utf8("line"), Reason.NOT_UTF_8)
        .when(sql.trim("line", sql.lit(" \t\r\n")) == "", "")
        .when(text.isNull(), Reason.BAD_JSON)
        .when(text.contains(SEPARATOR), Reason.CONTROL_CHARACTER)
        .when(sql.col("is_json"), of_json)
        .otherwise(of_kafka)
    )


def _stands_twice(text: Column) -> Column:
    one_meaning = (tuple(VERDICTS), OPERATIONS, *((marker,) for marker in SINGLE_MARKERS))
    counts = (
        reduce(Column.__add__, (_count(text, marker) for marker in markers))
        for markers in one_meaning
    )
    return reduce(Column.__or__, (count > 1 for count in counts))


def _count(text: Column, marker: str) -> Column:
    removed = sql.length(text) - sql.length(sql.replace(text, sql.lit(marker), sql.lit("")))
    return removed / len(marker)


def _fields() -> list[Column]:
    json = sql.col("json")
    acl_rule = sql.concat(sql.lit("MatchingAcl(acl="), json["acl"], sql.lit(")"))
    count = sql.nullif(_part(10), sql.lit(""))
    values = {
        "at": (sql.col("at"), sql.col("at")),
        "allowed": (json["allowed"], _part(3) == "Allowed"),
        "principal": (json["principal"], _part(2)),
        "host": (json["host"], sql.nullif(_part(5), sql.lit(UNKNOWN_HOST))),
        "operation": (json["operation"], _constant_name(_part(4))),
        "resource_type": (json["resource_type"], _constant_name(_part(6))),
        "resource_name": (json["resource_name"], _part(8)),
        "pattern_type": (sql.lit("LITERAL"), _or(_part(7), "LITERAL")),
        "request": (json["request"], sql.when(count.isNotNull(), _part(9))),
        "reference_count": (json["resource_reference_count"], count.try_cast("int")),
        "rule": (sql.coalesce(acl_rule, json["rule"]), sql.nullif(_part(11), sql.lit(""))),
        "level": (sql.coalesce(json["level"], sql.lit(UNKNOWN_LEVEL)), _or(_head(3), "UNKNOWN")),
    }
    return [
        sql.when(sql.col("is_json"), values[name][0]).otherwise(values[name][1]).alias(name)
        for name in EVENT_COLUMNS
    ]


def _or(value: Column, default: str) -> Column:
    return sql.coalesce(sql.nullif(value, sql.lit("")), sql.lit(default))


def _constant_name(word: Column) -> Column:
    """Return ``TransactionalId`` as ``TRANSACTIONAL_ID``."""
    apart = sql.regexp_replace(word, "([a-z])([A-Z])", "$1_$2")
    return sql.when(word == sql.upper(word), word).otherwise(sql.upper(apart))
