"""Parse plain lines of Kafka's audit log in Arrow arrays, without Python code for each line.

**Invariant:** a plain line yields the same event as ``parse_kafka_line``, and cannot be read in any
other way. Every marker of the layout contains a space that does not follow a comma. A plain field
contains no space, and a plain rule has spaces only after commas, so neither can contain a marker.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow
import pyarrow.compute as compute

from authorizerd.acl.audit.caller import CALLER_GROUP
from authorizerd.acl.audit.recorded.event import UNKNOWN_HOST
from authorizerd.acl.audit.recorded.kafka_line import (
    COUNT,
    HOST,
    NAMED_RULE,
    OPERATIONS,
    PATTERN_TYPES,
    PRINCIPAL,
    REQUEST,
    RESOURCE,
    RULE,
    constant_name,
)
from authorizerd.acl.audit.recorded.times import LEVELS
from authorizerd.replay.ingest.parse.beginnings import ONE_TIME

_FIELD: Final = "[!-~]+"  # ASCII, so the bytes are valid UTF-8
_WORD: Final = "[A-Za-z_]+"
_LOGGER: Final = r" \(kafka\.authorizer\.logger\)"
_OF_DAEMON: Final = f" {CALLER_GROUP}"
_OF_LAYOUT: Final = r" \[[!-<>-Z^-~]{1,100}\]"
_TAIL: Final = rf"{_LOGGER}(?:{_OF_DAEMON}|{_OF_LAYOUT})?$"
_RULE: Final = rf"{RULE}{NAMED_RULE}(?:\(acl={_FIELD}(?:, {_FIELD})*[\])]\))?"
_PLAIN: Final = (
    rf"^{re.escape(ONE_TIME.decode())}(?:{'|'.join(LEVELS)}) {PRINCIPAL}{_FIELD} is "
    rf"(?:Allowed|Denied){OPERATIONS[0]}{_WORD}{HOST}{_FIELD}{RESOURCE}{_WORD}:"
    rf"(?:{'|'.join(PATTERN_TYPES)}):{_FIELD}{REQUEST}{_FIELD}{COUNT}[0-9]{{1,9}}"
    rf"(?:(?:{_RULE})?{_LOGGER}(?:{_OF_LAYOUT})?|{_RULE}{_LOGGER}{_OF_DAEMON})$"
)
_COUNT_AND_RULE: Final = rf"^(?P<count>[0-9]+)(?:{RULE}(?P<rule>.+))?$"
_PLACES: Final = {  # the position of each value among the words of a plain line
    "level": 2,
    "principal": 5,
    "verdict": 7,
    "operation": 10,
    "host": 14,
    "resource": 18,
    "request": 22,
    "ending": 26,
}
_WORDS: Final = _PLACES["ending"] + 1


def are_plain(lines: pyarrow.BinaryArray) -> pyarrow.BooleanArray:
    """Return True for each line that is plain."""
    return compute.match_substring_regex(lines, _PLAIN)


def read_plain(lines: pyarrow.BinaryArray) -> dict[str, pyarrow.Array]:
    """Return the columns of plain lines, by the names of ``Event``'s fields, without the time."""
    # The last word keeps its spaces, because a rule may contain some.
    words = compute.split_pattern(lines, " ", max_splits=_WORDS - 1).flatten()
    # A view instead of a cast: plain lines are ASCII, so the check for UTF-8 is unnecessary.
    texts = words.view(pyarrow.string())
    values = {name: _every(texts, place, _WORDS) for name, place in _PLACES.items()}
    resource = compute.split_pattern(values["resource"], ":", max_splits=2).flatten()
    ending = compute.replace_substring_regex(values["ending"], _TAIL, "")
    count_and_rule = compute.extract_regex(ending, _COUNT_AND_RULE)
    return {
        "allowed": compute.equal(values["verdict"], "Allowed"),
        "principal": values["principal"],
        "host": _none_where(values["host"], UNKNOWN_HOST),
        "operation": _constants(values["operation"]),
        "resource_type": _constants(_every(resource, 0, 3)),
        "resource_name": _every(resource, 2, 3),
        "pattern_type": _every(resource, 1, 3),
        "request": values["request"],
        "reference_count": compute.struct_field(count_and_rule, "count").cast(pyarrow.int32()),
        "rule": _none_where(compute.struct_field(count_and_rule, "rule"), ""),
        "level": values["level"],
    }


def _every(texts: pyarrow.StringArray, first: int, step: int) -> pyarrow.StringArray:
    return texts.take(pyarrow.array(range(first, len(texts), step), pyarrow.int64()))


def _none_where(values: pyarrow.StringArray, nothing: str) -> pyarrow.StringArray:
    return compute.if_else(compute.equal(values, nothing), None, values)


def _constants(words: pyarrow.StringArray) -> pyarrow.StringArray:
    # Few distinct words occur, so each is converted only once.
    encoded = words.dictionary_encode()
    names = list(map(constant_name, encoded.dictionary.to_pylist()))
    return pyarrow.array(names, pyarrow.string()).take(encoded.indices)
