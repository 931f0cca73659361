"""Parse YAML and JSON strictly, and check the shape of what was parsed.

**Invariant:** nothing is guessed. A repeated key, an unknown key and a value of the wrong type are
errors that name their place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import yaml

from authorizerd.acl.formats.model import AclTextError
from authorizerd.acl.formats.yaml_loader import StrictLoader, UnmergedLoader, check_size
from authorizerd.acl.letter_case import ascii_upper
from authorizerd.acl.model import Code, Operation, PatternType, PermissionType, ResourceType
from authorizerd.acl.typos import find_similar

Value: TypeAlias = Any
"""A parsed document, or a part of one, before validation."""

AnyCode = TypeVar("AnyCode", bound=Code)
Meaning = TypeVar("Meaning")

_IN_FILTERS: Final = ("UNKNOWN", "ANY", "MATCH")
"""Names of codes that no ACL has."""

DOCUMENT: Final = "document"
"""The place of a fault that concerns the whole text."""


def parse_yaml(text: str, loader: type[StrictLoader] = StrictLoader) -> Value:
    """Return the value of a YAML text with at most one document.

    Raises:
        AclTextError: the text is not YAML, or repeats a key in a mapping.
    """
    return _parse_yaml(text, lambda: yaml.load(text, Loader=loader))  # noqa: S506 - safe


def parse_yaml_documents(text: str, loader: type[StrictLoader] = StrictLoader) -> list[Value]:
    """Return the values of all documents of a YAML text; those without content are left out.

    Raises:
        AclTextError: as ``parse_yaml``.
    """
    values = _parse_yaml(text, lambda: list(yaml.load_all(text, Loader=loader)))
    return [value for value in values if value is not None]


def _parse_yaml(text: str, load: Any) -> Value:  # noqa: ANN401 - yaml has no types
    try:
        check_size(text)
        return load()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = DOCUMENT if mark is None else f"line {mark.line + 1}"
        raise AclTextError(place, error.problem or "not YAML") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise AclTextError(DOCUMENT, f"not YAML: {_first_line(error)}") from error


def parse_json(text: str) -> Value:
    """Return the value of a JSON document.

    Raises:
        AclTextError: the text is not JSON, or repeats a key in an object.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise AclTextError(f"line {error.lineno}", f"not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise AclTextError(DOCUMENT, f"not JSON: {_first_line(error)}") from error


def _object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    held: dict[str, Value] = {}
    for key, value in pairs:
        if key in held:
            raise AclTextError(DOCUMENT, f"duplicate key {key!r} in an object")
        held[key] = value
    return held


def parse_documents(text: str, *, merges: bool = True) -> list[tuple[str, Value]]:
    """Return each document of a YAML or JSON text, with its place.

    Args:
        merges: whether the format's own tool reads YAML's merge keys.

    Raises:
        AclTextError: the text is neither, or repeats a key.
    """
    if text.lstrip().startswith("{"):
        return [(DOCUMENT, parse_json(text))]
    values = parse_yaml_documents(text, StrictLoader if merges else UnmergedLoader)
    if len(values) == 1:
        return [(DOCUMENT, values[0])]
    return [(f"{DOCUMENT}[{number}]", value) for number, value in enumerate(values)]


def parse_document(text: str, *, merges: bool = True) -> Value:
    """Return the value of a YAML or JSON text with one document.

    Args, Raises: as ``parse_documents``.
    """
    if text.lstrip().startswith("{"):
        return parse_json(text)
    return parse_yaml(text, StrictLoader if merges else UnmergedLoader)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


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
