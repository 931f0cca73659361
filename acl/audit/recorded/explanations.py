"""Recognize the messages with which AclAuthorizer explains a decision at DEBUG.

A separate line has the decision itself.

**Invariant:** an explanation begins right after the head of a line, and the line contains no marker
of a decision. So no name can make a decision look like an explanation.

Source: Kafka SimpleAclAuthorizer and AclAuthorizer (isSuperUser, isEmptyAclAndAuthorized and
matchingAclExists); Confluent's LdapAuthorizer, which also names super groups.
"""

from __future__ import annotations

import re
from typing import Final

from authorizerd.acl.audit.recorded.kafka_line import CLASS, PARTIAL, PRINCIPAL, VERDICTS
from authorizerd.acl.audit.recorded.times import LEVELS

EXPLANATIONS: Final = {
    "operation = ": (" on resource = ", " from host = ", " based on acl = "),
    "No acl found for resource ": (", authorized = ",),
    "principal = ": (", allowing operation without checking acls.",),
}
"""The beginning of each message, and the markers that follow it, in this order."""

_TIME: Final = r"\[?[0-9][0-9T:.,Z+ /-]{9,40}\]?"
_LAYOUT: Final = rf"(?:\[[^\[\]]{{0,200}}\] {{1,3}})?(?:(?:{CLASS})(?: [A-Za-z]+)? ?[-:] )?"
# A container's or syslog's words, or Loki's labels, may precede the head; JSON or a level may not.
_BEFORE: Final = (
    rf"(?:(?!{'|'.join(LEVELS)})[^={{}}\"]|\{{(?![\s\"])[^{{}}]{{0,300}}\}}){{0,200}}?(?<![0-9])"
)
_head: Final = re.compile(
    rf"(?s)({_BEFORE})(?:{_TIME} {{1,3}}DEBUG|\[?DEBUG\]? {{1,3}}{_TIME}) {{1,3}}{_LAYOUT}"
    rf"({'|'.join(EXPLANATIONS)})"
)


def is_explanation(text: str) -> bool:
    """Return True for a line with such a message, and nothing that may be a decision."""
    head = _head.match(text)
    if head is None or any(marker in text for marker in (PRINCIPAL, *VERDICTS)):
        return False
    place = head.end()
    for needle in EXPLANATIONS[head.group(2)]:
        found = text.find(needle, place)
        if found < 0:
            return False
        place = found + len(needle)
    return PARTIAL.search(head.group(1)) is None
