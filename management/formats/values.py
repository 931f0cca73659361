"""Check the shape of parsed values, the names of Kafka's codes, and whether Kafka accepts an ACL.

**Invariant:** nothing is guessed. An unknown key and a value of the wrong type are errors that name
their place.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from authorizerd.acl.model import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Code,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.text.letter_case import ascii_upper
from authorizerd.acl.text.named_acl import CODES
from authorizerd.acl.text.typos import find_similar
from authorizerd.acl.validation import find_creation_fault
from authorizerd.management.formats.model import AclTextError, Loss
from authorizerd.management.plan.names import name_fields

OLD_OPERATIONS: Final = tuple(
    map(Operation, range(Operation.ALL, Operation.IDEMPOTENT_WRITE + 1)),
)
"""The operations before Kafka 3.3, which added those on users."""
OLD_RESOURCE_TYPES: Final = tuple(
    map(ResourceType, range(ResourceType.TOPIC, ResourceType.DELEGATION_TOKEN + 1)),
)
"""The resource types before Kafka 3.3, which added USER."""


def why_not_creatable(acl: Acl) -> str | None:
    """Return why Kafka would refuse to create ``acl``; None if it would not.

    Such ACLs can be in a log, from a newer Kafka version or from its earliest releases.
    """
    fault = find_creation_fault(acl)
    return None if fault is None else f"Kafka does not accept such an ACL: {fault}"


def check_creatable(place: str, acl: Acl) -> Acl:
    fault = find_creation_fault(acl)
    if fault is not None:
        raise AclTextError(place, fault)
    return acl


def why_not_old(acl: Acl, tool: str) -> str | None:
    """Return why a tool without Kafka 3.3's additions cannot express ``acl``; None if it can."""
    if acl.resource_type not in OLD_RESOURCE_TYPES:
        return f"{tool} does not know the resource type {ResourceType.read(acl.resource_type).name}"
    if acl.operation not in OLD_OPERATIONS:
        return f"{tool} does not know the operation {Operation.read(acl.operation).name}"
    return None


def spell(code: Code) -> str:
    """Return the name of a code as many tools spell it: ``AlterConfigs``."""
    return code.name.title().replace("_", "")


_NAME_CHARACTERS_MAX: Final = 100
"""The maximum length of a key that an error names. YAML's keys have at most 1,024 characters."""


def keep_writable(
    acls: Iterable[Acl], why_not: Callable[[Acl], str | None]
) -> tuple[list[Acl], tuple[Loss, ...]]:
    """Return the ACLs without a fault, and a loss for each of the others, in order and without
    repeats."""
    kept: list[Acl] = []
    losses: list[Loss] = []
    for acl in dict.fromkeys(acls):
        reason = why_not(acl)
        if reason is None:
            kept.append(acl)
        else:
            losses.append(Loss(acl, reason))
    return kept, tuple(losses)


def free_name(text: str, taken: Container[str]) -> str:
    """Return the beginning of ``text``, with a number if the name is taken."""
    name = start = text[:_NAME_CHARACTERS_MAX]
    number = 1
    while name in taken:
        number += 1
        name = f"{start} ({number})"
    return name


Value: TypeAlias = Any
"""A parsed document, or a part of one, before validation."""

AnyCode = TypeVar("AnyCode", bound=Code)
Meaning = TypeVar("Meaning")

_IN_FILTERS: Final = ("UNKNOWN", "ANY", "MATCH")
"""Names of codes that no ACL may have."""

DOCUMENT: Final = "document"
"""The place of a fault that concerns the whole text."""


def check_keys(
    place: str, value: Value, *, required: Iterable[str], optional: Iterable[str] = ()
) -> None:
    check_mapping(place, value)
    known = (*required, *optional)
    for key in value:
        if key not in known:
            word = str(key)
            reason = f"unknown key {word[:80]!r}{_suggest_key(word, known)}"
            raise AclTextError(place, f"{reason}: expected one of {', '.join(known)}", key=word)
    for key in required:
        if key not in value:
            raise AclTextError(place, f"missing key {key!r}")


def or_empty(value: Value, empty: Value) -> Value:
    """Return ``value``, or ``empty`` if it is missing or null. Other values stay, for a check."""
    return empty if value is None else value


def check_list(place: str, value: Value, what: str) -> Iterator[tuple[str, Value]]:
    if not isinstance(value, list):
        raise AclTextError(place, f"expected a list of {what}, found {describe(value)}")
    for number, item in enumerate(value):
        yield f"{place}[{number}]", item


def check_mapping(place: str, value: Value) -> dict[str, Value]:
    if not isinstance(value, dict):
        raise AclTextError(place, f"expected a mapping, found {describe(value)}")
    for key in value:
        check_text(f"{place}: a key", key)
    return value


def check_text(place: str, value: Value) -> str:
    if not isinstance(value, str):
        raise AclTextError(place, f"expected text in quotes, found {describe(value)}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise AclTextError(place, "expected text, found half of a surrogate pair")
    return value


def check_flag(place: str, value: Value) -> bool:
    if not isinstance(value, bool):
        raise AclTextError(place, f"expected true or false, found {describe(value)}")
    return value


def check_word(place: str, value: Value, words: Mapping[str, Meaning]) -> Meaning:
    """Return the meaning of one of ``words``, whose letter case counts."""
    word = check_text(place, value)
    if word not in words:
        raise AclTextError(place, f"expected one of {', '.join(words)}, found {word!r}")
    return words[word]


def check_code(place: str, value: Value, codes: type[AnyCode]) -> AnyCode:
    """Return the code of one of Kafka's names, regardless of its case and of any ``_``."""
    name = check_text(place, value)
    code = _BY_FOLDED_NAME[codes].get(ascii_upper(name.replace("_", "")))
    if code is None:
        raise AclTextError(place, _describe_unknown(name, codes))
    return codes(code)


class AclShape(NamedTuple):
    """The keys of an ACL in a mapping or a line.

    Attributes:
        keys: the field of ``Acl`` for each key, in the order in which they are checked and written.
        words: the words of codes, by field. Other fields have Kafka's names, in any spelling.
        is_line: True if errors name the line, and not the key in it.
    """

    keys: Mapping[str, str]
    words: Mapping[str, Mapping[str, Code]] = {}
    is_line: bool = False

    def read(self, place: str, values: Mapping[str, Value], **known: int | str) -> Acl:
        """Return the ACL with these values, and with fields that are ``known`` already."""
        fields: dict[str, Any] = {**known}
        for key, field in self.keys.items():
            key_place = place if self.is_line else f"{place}.{key}"
            if field in fields:
                continue
            if field in self.words:
                fields[field] = int(check_word(key_place, values[key], self.words[field]))
            elif field in CODES:
                fields[field] = int(check_code(key_place, values[key], CODES[field]))
            else:
                fields[field] = check_text(key_place, values[key])
        return Acl(**fields)

    def write(self, acl: Acl) -> dict[str, str]:
        fields = name_fields(acl)
        for field, words in self.words.items():
            code = getattr(acl, field)
            fields[field] = next(word for word, meaning in words.items() if meaning == code)
        return {key: fields[field] for key, field in self.keys.items()}


PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)
PERMISSION_TYPES: Final = (PermissionType.ALLOW, PermissionType.DENY)
"""The codes that ACLs have, and not only filters."""


def by_name(*codes: Code) -> dict[str, Code]:
    return {code.name: code for code in codes}


def allow(
    principal: str,
    operation: Operation,
    resource_type: ResourceType,
    name: str = CLUSTER_NAME,
    pattern_type: PatternType = PatternType.LITERAL,
) -> Acl:
    """Return an ACL for a role, which always allows, from every host."""
    codes = int(operation), int(PermissionType.ALLOW)
    return Acl(int(resource_type), name, int(pattern_type), principal, WILDCARD, *codes)


_BY_FOLDED_NAME: Final[dict[type[Code], dict[str, int]]] = {
    codes: {code.name.replace("_", ""): int(code) for code in codes} for codes in CODES.values()
}


def _describe_unknown(name: str, codes: type[Code]) -> str:
    """Return the reason of an error: the name is unknown, with the probably intended one."""
    known, found = _BY_FOLDED_NAME[codes], f"unknown {codes.__name__} {name[:80]!r}"
    similar = find_similar(name.replace("_", ""), known)
    if similar is not None:
        meant = codes(known[similar]).name
        return f"{found} (did you mean {meant}?)"
    names = ", ".join(code.name for code in codes if code.name not in _IN_FILTERS)
    return f"{found}: expected one of {names}"


def _suggest_key(word: str, known: Iterable[str]) -> str:
    similar = find_similar(word, known)
    return "" if similar is None else f" (did you mean {similar}?)"


def describe(value: Value) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:80]!r}"
