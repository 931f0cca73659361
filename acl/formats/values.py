"""Check the shape of what was parsed, and the names of Kafka's codes.

**Invariant:** nothing is guessed. An unknown key and a value of the wrong type are errors that name
their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from authorizerd.acl.formats.limits import check_creatable
from authorizerd.acl.formats.model import AclTextError
from authorizerd.acl.letter_case import ascii_upper
from authorizerd.acl.model import Acl, Code, Operation, PatternType, PermissionType, ResourceType
from authorizerd.acl.typos import find_similar

Value: TypeAlias = Any
"""A parsed document, or a part of one, before validation."""

AnyCode = TypeVar("AnyCode", bound=Code)
Meaning = TypeVar("Meaning")

_IN_FILTERS: Final = ("UNKNOWN", "ANY", "MATCH")
"""Names of codes that no ACL has."""

DOCUMENT: Final = "document"
"""The place of a fault that concerns the whole text."""


def check_keys(
    place: str, value: Value, *, required: Iterable[str], optional: Iterable[str] = ()
) -> None:
    """Check that ``value`` is a mapping with these keys, and no others.

    Raises:
        AclTextError: it is not.
    """
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
    """Yield each item of a list with its place; ``what`` names the items in an error.

    Raises:
        AclTextError: ``value`` is not a list.
    """
    if not isinstance(value, list):
        raise AclTextError(place, f"expected a list of {what}, found {describe(value)}")
    for number, item in enumerate(value):
        yield f"{place}[{number}]", item


def check_mapping(place: str, value: Value) -> dict[str, Value]:
    """Return ``value`` if it is a mapping whose keys are texts.

    Raises:
        AclTextError: it is not.
    """
    if not isinstance(value, dict):
        raise AclTextError(place, f"expected a mapping, found {describe(value)}")
    for key in value:
        check_text(f"{place}: a key", key)
    return value


def check_text(place: str, value: Value) -> str:
    """Return ``value`` if it is a text.

    Raises:
        AclTextError: it is not, or Kafka could not store it.
    """
    if not isinstance(value, str):
        raise AclTextError(place, f"expected text in quotes, found {describe(value)}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise AclTextError(place, "expected text, found half of a surrogate pair")
    return value


def check_flag(place: str, value: Value) -> bool:
    """Return ``value`` if it is true or false.

    Raises:
        AclTextError: it is neither.
    """
    if not isinstance(value, bool):
        raise AclTextError(place, f"expected true or false, found {describe(value)}")
    return value


def check_word(place: str, value: Value, words: Mapping[str, Meaning]) -> Meaning:
    """Return the meaning of one of ``words``, whose letter case counts.

    Raises:
        AclTextError: ``value`` is not one of them.
    """
    word = check_text(place, value)
    if word not in words:
        raise AclTextError(place, f"expected one of {', '.join(words)}, found {word!r}")
    return words[word]


def check_code(place: str, value: Value, codes: type[AnyCode]) -> AnyCode:
    """Return the code of one of Kafka's names, regardless of its case and of any ``_``.

    Raises:
        AclTextError: there is no such name.
    """
    name = check_text(place, value)
    code = _CODES[codes].get(ascii_upper(name.replace("_", "")))
    if code is None:
        raise AclTextError(place, _describe_unknown(name, codes))
    return codes(code)


def read_named_acl(
    place: str,
    *,
    principal: str,
    host: str,
    resource: tuple[str, str, str],
    operation: str,
    permission_type: str,
) -> Acl:
    """Return the ACL of a line with Kafka's names.

    Args:
        resource: the type, the name and the type of its pattern.

    Raises:
        AclTextError: a name is unknown, or Kafka would not create the ACL.
    """
    resource_type, name, pattern_type = resource
    acl = Acl(
        int(check_code(place, resource_type, ResourceType)),
        name,
        int(check_code(place, pattern_type, PatternType)),
        principal,
        host,
        int(check_code(place, operation, Operation)),
        int(check_code(place, permission_type, PermissionType)),
    )
    return check_creatable(place, acl)


_CODES: Final[dict[type[Code], dict[str, int]]] = {
    codes: {code.name.replace("_", ""): int(code) for code in codes}
    for codes in (ResourceType, PatternType, Operation, PermissionType)
}


def _describe_unknown(name: str, codes: type[Code]) -> str:
    """Return the reason of an error: the name is unknown, and which one was probably meant."""
    known, found = _CODES[codes], f"unknown {codes.__name__} {name[:80]!r}"
    similar = find_similar(name.replace("_", ""), known)
    if similar is not None:
        meant = codes(known[similar]).name
        return f"{found} (did you mean {meant}?)"
    names = ", ".join(each.name for each in codes if each.name not in _IN_FILTERS)
    return f"{found}: expected one of {names}"


def _suggest_key(word: str, known: Iterable[str]) -> str:
    similar = find_similar(word, known)
    return "" if similar is None else f" (did you mean {similar}?)"


def describe(value: Value) -> str:
    """Return the type and the beginning of a value, for an error."""
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:80]!r}"
