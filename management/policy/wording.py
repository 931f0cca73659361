"""Write assertions and findings as sentences.

**Invariant:** ``read_sentence`` reads what ``write_assertion`` writes, as an equal assertion.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from authorizerd.acl.model import Operation, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.search.hosts import HostAccess
from authorizerd.management.policy.judging import Finding
from authorizerd.management.policy.sentence import KEYWORDS
from authorizerd.management.policy.words import (
    RESOURCE_WORDS,
    SUPER_USERS,
    Assertion,
    AtMost,
    Each,
    Everyone,
    Names,
    Who,
)

HOSTS_SHOWN: Final = 5

_UNNAMED: Final = "a principal that no ACL names"

_PLAIN: Final = re.compile(r"""[^\s,"'*$][^\s,*]*""")
_TYPE_WORDS: Final = {resource_type: word for word, resource_type in RESOURCE_WORDS.items()}


def write_assertion(assertion: Assertion) -> str:
    resource_type = ResourceType(assertion.resource_type)
    words = [
        _write_who(assertion.who),
        "may" if assertion.is_allowed else "may not",
        _write_operations(resource_type, assertion.operations),
        _write_resources(resource_type, assertion.names),
    ]
    if assertion.hosts:
        words += ["from", ", ".join(assertion.hosts)]
    return " ".join(words)


def write_finding(finding: Finding) -> str:
    if finding.release is not None:
        return f"by the rules of Kafka {finding.release}, {_write_finding(finding)}"
    return _write_finding(finding)


def _write_finding(finding: Finding) -> str:
    question = finding.question
    resource_type = ResourceType(question.resource_type)
    who = _UNNAMED if finding.principal is None else _quote(finding.principal)
    action = f"{Operation(question.operation).name} {_write_part(resource_type, finding)}"
    access = finding.access
    if not finding.is_allowed and access.is_nowhere:
        return f"{who} may not {action}"
    if finding.names.is_prefix:
        action += ","  # an example ends it
    if finding.is_allowed:
        return f"{who} may {action} from {_write_access(access)}"
    if access.others:
        return f"{who} may not {action} from {_write_hosts(access)}"
    return f"{who} may {action} only from {_write_hosts(access)}"


def _write_who(who: Who) -> str:
    match who:
        case Everyone():
            return "everyone"
        case Each(principals):
            return _join(map(_quote, principals), " and ")
        case AtMost(count, besides, besides_super_users):
            words = ["nobody" if count == 0 else f"at most {count} principals"]
            named = [*map(_quote, besides), *([SUPER_USERS] if besides_super_users else [])]
            if named:
                words += ["but", _join(named, " and ")]
            return " ".join(words)


def _write_operations(resource_type: ResourceType, operations: tuple[int, ...]) -> str:
    if operations == tuple(map(int, SUPPORTED[resource_type])) and len(operations) > 1:
        return Operation.ALL.name
    return _join((Operation(code).name for code in operations), " or ")


def _write_resources(resource_type: ResourceType, names: tuple[Names, ...]) -> str:
    if resource_type is ResourceType.CLUSTER:
        return "the cluster"
    word = _TYPE_WORDS[resource_type]
    if names == (Names("", is_prefix=True),):
        return f"any {word}"
    is_plural = len(names) > 1 or names[0].is_prefix
    return f"{word}{'s' if is_plural else ''} {_join(map(_write_names, names), ' and ')}"


def _write_names(names: Names) -> str:
    star = "*" if names.is_prefix else ""
    return f"{_quote(names.text)}{star}" if names.text or not star else star


def _write_part(resource_type: ResourceType, finding: Finding) -> str:
    """Return the resources of a finding, with an example if there are many."""
    if resource_type is ResourceType.CLUSTER or not finding.names.is_prefix:
        return _write_resources(resource_type, (finding.names,))
    example = _quote(finding.question.resource_name)
    word = _TYPE_WORDS[resource_type]
    if not finding.names.text:
        return f"{word}s such as {example}"
    return f"{word}s {_write_names(finding.names)}, such as {example}"


def _write_access(access: HostAccess) -> str:
    if access.is_everywhere:
        return "any host"
    hosts = _write_hosts(access)
    return f"any host except {hosts}" if access.others else hosts


def _write_hosts(access: HostAccess) -> str:
    places = access.describe_places()
    hosts = ", ".join(places[:HOSTS_SHOWN])
    left_out = len(places) - HOSTS_SHOWN
    return f"{hosts} and {left_out} more" if left_out > 0 else hosts


def _quote(text: str) -> str:
    """Return a name for a sentence: in quotes, unless it is plain."""
    if _PLAIN.fullmatch(text) and text not in KEYWORDS:
        return text
    return '"' + text.replace('"', '""') + '"'


def _join(words: Iterable[str], last: str) -> str:
    *first, end = words
    return f"{', '.join(first)}{last}{end}" if first else end
