"""Parse the audit lines of Kafka's authorizers, in every layout of brokers and their containers.

**Invariant:** a line is read only if it has exactly one reading. Clients choose the names of
principals, groups and resources, so a misplaced or repeated marker makes a line ambiguous: no name
can turn a recorded Denied into Allowed. A line in JSON is never read: one of its names may contain
a whole line of Kafka's. Text in an unknown layout never becomes part of a name: if a name or the
rule ends a message, only a logger's name in a known layout may follow it.

Source: Kafka SimpleAclAuthorizer, AclAuthorizer and StandardAuthorizerData (buildAuditMessage).
"""

from __future__ import annotations

import re
from datetime import tzinfo
from functools import lru_cache
from typing import Final

from authorizerd.acl.audit.caller import remove_caller
from authorizerd.acl.audit.recorded.event import (
    SEPARATOR,
    UNKNOWN_HOST,
    UNKNOWN_LEVEL,
    Event,
    Reason,
)
from authorizerd.acl.audit.recorded.times import Head, find_head
from authorizerd.acl.text.letter_case import ascii_upper

PRINCIPAL: Final = "Principal = "
VERDICTS: Final = {" is Allowed ": True, " is Denied ": False}
OPERATIONS: Final = (" operation = ", " Operation = ")  # since Kafka 3.2, and before it
HOST: Final = " from host = "
RESOURCE: Final = " on resource = "
REQUEST: Final = " for request = "
COUNT: Final = " with resourceRefCount = "
RULE: Final = " based on rule "
SINGLE_MARKERS: Final = (PRINCIPAL, HOST, RESOURCE, REQUEST, COUNT, RULE)
MARKERS: Final = (*VERDICTS, *OPERATIONS, *SINGLE_MARKERS)

PATTERN_TYPES: Final = ("LITERAL", "PREFIXED", "ANY", "MATCH", "UNKNOWN")
PARTIAL: Final = re.compile(r" (?:stdout|stderr) P ")  # CRI's tag of a partial line
_object: Final = re.compile(r"\s*\{|.*?\{\s*\"", re.DOTALL)
"""Before a decision, the beginning of a JSON object, perhaps after a container's prefix."""
_verdict: Final = re.compile(" is (Allowed|Denied) ")
_WORD: Final = re.compile(r"[A-Za-z_]+")
_NUMBER: Final = re.compile(r"([0-9]{1,9})(.*)", re.DOTALL)
# log4j's %c, %c{1.} or %c:%L, Strimzi's %t, and the end of a colour. All parts are bounded;
# otherwise a hostile name would take forever to match.
CLASS: Final = r"[A-Za-z0-9_.$-]{0,100}uthorizer[A-Za-z0-9_.$-]{0,100}|(?:k\.a\.)?logger"
TAIL: Final = (
    rf" \((?:{CLASS})(?::[0-9]{{1,7}})?\)(?: \[[^\[\]]{{0,200}}\])?"
    r"(?:[ \t]|\x1b\[[0-9;]{0,20}m){0,20}"
)
_tail: Final = re.compile(f"(?s)(.*){TAIL}")
_TAILS_MAX: Final = 2
"""A layout may name both the logger and its class."""
NAMED_RULE: Final = "[A-Za-z0-9_.:$-]+"
"""A rule without an ACL: one of Kafka's, or the name of the daemon's own authorizer."""
_rule: Final = re.compile(rf"(?s)(?:{RULE}{NAMED_RULE}(?:\(acl=.*[\])]\))?)?")
_TOPIC: Final = "TOPIC"
_topic_name: Final = re.compile(r"[A-Za-z0-9._-]+")
_AFTER_NAMES: Final = frozenset(" \"'`,;|()[]{}<>\\")
"""Characters that may begin a text after the name. A topic's name contains none of them."""


class _SetAsideError(Exception):
    """The line is not an event."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


def parse_kafka_line(text: str, zone: tzinfo) -> Event | Reason:
    """Return the event of an audit line; ``zone`` applies to a time without one."""
    if PRINCIPAL not in text or _verdict.search(text) is None:
        return Reason.NO_DECISION
    try:
        return _parsed(text, zone)
    except _SetAsideError as unreadable:
        return unreadable.reason


def has_marker_twice(text: str) -> bool:
    """Return True if ``text`` contains a marker more than once; synonyms count as one marker."""
    one_meaning = (tuple(VERDICTS), OPERATIONS, *((marker,) for marker in SINGLE_MARKERS))
    return any(sum(map(text.count, markers)) > 1 for markers in one_meaning)


def _parsed(line: str, zone: tzinfo) -> Event:
    without = remove_caller(line)
    if without is None:
        raise _SetAsideError(Reason.AMBIGUOUS)
    text, has_caller = without
    before, rest = _cut(text, PRINCIPAL, text)
    if _object.match(before) is not None:
        raise _SetAsideError(Reason.AMBIGUOUS)
    verdict = _verdict.search(rest)
    # The space after the verdict is also the first character of the operation's marker.
    if verdict is None or not rest.startswith(OPERATIONS, verdict.end() - 1):
        raise _unread(text)
    principal = rest[: verdict.start()]
    names_request = rest.startswith(OPERATIONS[0], verdict.end() - 1)
    operation, rest = _cut(rest[verdict.end() - 1 + len(OPERATIONS[0]) :], HOST, text)
    host, rest = _cut(rest, RESOURCE, text)
    resource_type, rest = _cut(rest, ":", text)
    if not _WORD.fullmatch(operation) or not _WORD.fullmatch(resource_type):
        raise _unread(text)
    pattern_type, name, request, count, ending = _split_after_type(rest)
    # Without its request, such a line was cut off, perhaps within the name; so was a line that ends
    # in a type, or before its name.
    is_in_type = any(f"{kind}:".startswith(rest) for kind in PATTERN_TYPES)
    if not count and (names_request or is_in_type or name in PATTERN_TYPES):
        raise _unread(text)
    rule = ending.removeprefix(RULE)
    kind = constant_name(resource_type)
    # Put spaces around each field: a marker may begin or end with the space next to a field.
    fields = f" {SEPARATOR} ".join(("", before, principal, host, name, request, rule, ""))
    # Only the daemon names a caller, and it also names the rule: if the rule is missing, a name may
    # be cut off.
    if any(marker in fields for marker in MARKERS) or (has_caller and not rule):
        raise _SetAsideError(Reason.AMBIGUOUS)
    if " " in host:
        raise _SetAsideError(Reason.UNKNOWN_LAYOUT)
    if not (_rule.fullmatch(ending) if count else _is_whole_name(kind, name)):
        raise _SetAsideError(Reason.UNKNOWN_ENDING)
    head, at_ms = _find_time(before, zone)
    return Event(
        at_ms=at_ms,
        allowed=VERDICTS[verdict.group()],
        principal=principal,
        host=None if host == UNKNOWN_HOST else host,
        operation=constant_name(operation),
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern_type,
        request=request if count else None,
        reference_count=int(count) if count else None,
        rule=rule or None,
        level=head.level or UNKNOWN_LEVEL,
    )


@lru_cache(64)  # lines contain only a few distinct words
def constant_name(word: str) -> str:
    """Return ``TRANSACTIONAL_ID`` for ``TransactionalId``; capitals stay unchanged."""
    return ascii_upper(re.sub(r"([a-z])([A-Z])", r"\1_\2", word))


def _cut(text: str, marker: str, line: str) -> tuple[str, str]:
    before, found, after = text.partition(marker)
    if not found:
        raise _unread(line)
    return before, after


def _unread(line: str) -> _SetAsideError:
    return _SetAsideError(Reason.AMBIGUOUS if has_marker_twice(line) else Reason.UNKNOWN_LAYOUT)


def _split_after_type(text: str) -> tuple[str, str, str, str, str]:
    """Return pattern type, name, request, count, and the rule with its marker.

    The last three may be empty.
    """
    pattern_type, colon, rest = text.partition(":")
    if not colon or pattern_type not in PATTERN_TYPES:  # Kafka before 2.0 logged no pattern type
        pattern_type, rest = "LITERAL", text
    name, found_request, after = rest.partition(REQUEST)
    request, found_count, after = after.partition(COUNT)
    number = _NUMBER.fullmatch(after)
    if found_request and found_count and number:
        count, ending = number.groups()
        return pattern_type, name, request, count, _remove_tails(ending)
    return pattern_type, _remove_tails(rest), "", "", ""


def _remove_tails(text: str) -> str:
    for _ in range(_TAILS_MAX):
        found = _tail.fullmatch(text)
        text = found.group(1) if found else text
    return text


def _is_whole_name(kind: str, name: str) -> bool:
    """Return True if a name at a message's end cannot include text that follows the message."""
    if kind == _TOPIC:
        return _topic_name.fullmatch(name) is not None
    return name.isprintable() and _AFTER_NAMES.isdisjoint(name)


@lru_cache(64)  # EventReader replaces the time of most lines with the same time
def _find_time(before: str, zone: tzinfo) -> tuple[Head, int]:
    if PARTIAL.search(before):
        raise _SetAsideError(Reason.PARTIAL_LINE)
    head = find_head(before)
    if head is None:
        raise _SetAsideError(Reason.NO_TIME)
    at_ms = head.at_ms(zone)
    if at_ms is None:
        raise _SetAsideError(Reason.BAD_TIME)
    return head, at_ms
