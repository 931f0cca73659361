"""ACLs in a YAML or JSON document of a small, strict form.

    acls:
      - principal: User:alice
        host: 10.0.0.7            # default: every host, "*"
        operation: [READ, WRITE]  # one, or a list
        permission_type: ALLOW
        resource_type: TOPIC
        resource_name: orders
        pattern_type: PREFIXED    # default: LITERAL

**Invariant:** nothing is guessed. An unknown key, a value of the wrong type, a repeated key or ACL,
and an ACL that Kafka would reject are errors that name their place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import yaml

from authorizerd.acl.errors import InvalidAclError
from authorizerd.acl.letter_case import ascii_upper
from authorizerd.acl.model import (
    WILDCARD,
    Acl,
    Code,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.validation import validate_new_acl, validate_resource

Value: TypeAlias = Any
"""A parsed document, or a part of one, before validation."""

_REQUIRED: Final = (
    "principal",
    "operation",
    "permission_type",
    "resource_type",
    "resource_name",
)
_OPTIONAL: Final = {"host": WILDCARD, "pattern_type": "LITERAL"}
_DEPTH_MAX: Final = 16
_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_SAFE_LOADER: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DocumentError(Exception):
    """A document that does not have this form; ``place`` is, for example, ``acls[3].operation``."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason


def parse_yaml(text: str) -> Value:
    """Return the value of a YAML document.

    Raises:
        DocumentError: the text is not YAML, or repeats a key in a mapping.
    """
    try:
        _check_depth(text)
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506 - a safe loader, made stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = "document" if mark is None else f"line {mark.line + 1}"
        raise DocumentError(place, error.problem or "not YAML") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DocumentError("document", f"not YAML: {_first_line(error)}") from error


def _check_depth(text: str) -> None:
    """Reject deep nesting, which would crash the process in the loader's native code."""
    depth = 0
    for event in yaml.parse(text, Loader=_SAFE_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEPTH_MAX:
                line = event.start_mark.line + 1
                raise DocumentError(f"line {line}", f"nested more than {_DEPTH_MAX} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _StrictLoader(_SAFE_LOADER):  # type: ignore[misc]
    """A safe YAML loader that also rejects repeated keys and merge keys.

    A few lines with merge keys could expand to any number of keys.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            fault = None
            if key.tag == _MERGE_TAG:
                fault = "merge keys are not supported"
            elif (key.tag, key.value) in seen:
                fault = f"duplicate key {key.value!r}"
            if fault is not None:
                raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
            seen.add((key.tag, key.value))
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def parse_json(text: str) -> Value:
    """Return the value of a JSON document.

    Raises:
        DocumentError: the text is not JSON, or repeats a key in an object.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise DocumentError(f"line {error.lineno}", f"not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise DocumentError("document", f"not JSON: {_first_line(error)}") from error


def _object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    held: dict[str, Value] = {}
    for key, value in pairs:
        if key in held:
            raise DocumentError("document", f"duplicate key {key!r} in an object")
        held[key] = value
    return held


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def read_document(value: Value) -> Iterator[Acl]:
    """Yield the ACLs of a parsed document, in its order.

    Raises:
        DocumentError: the document does not have the form above.
    """
    _check_keys("document", value, required=("acls",), optional=())
    entries = value["acls"]
    if not isinstance(entries, list):
        raise DocumentError("acls", f"expected a list of ACLs, found {_kind(entries)}")
    places: dict[Acl, str] = {}
    for number, entry in enumerate(entries):
        place = f"acls[{number}]"
        for acl in _acls_of(place, entry):
            if acl in places:
                raise DocumentError(place, f"repeats {places[acl]}: {acl}")
            places[acl] = place
            yield acl


def _acls_of(place: str, entry: Value) -> Iterator[Acl]:
    _check_keys(place, entry, required=_REQUIRED, optional=tuple(_OPTIONAL))
    fields: Mapping[str, Value] = {**_OPTIONAL, **entry}
    operations = fields["operation"]
    if isinstance(operations, list) and not operations:
        raise DocumentError(
            f"{place}.operation", "expected at least one operation, found an empty list"
        )
    for operation in operations if isinstance(operations, list) else [operations]:
        acl = Acl(
            _code(place, "resource_type", fields["resource_type"], ResourceType),
            _text(place, "resource_name", fields["resource_name"]),
            _code(place, "pattern_type", fields["pattern_type"], PatternType),
            _text(place, "principal", fields["principal"]),
            _text(place, "host", fields["host"]),
            _code(place, "operation", operation, Operation),
            _code(place, "permission_type", fields["permission_type"], PermissionType),
        )
        try:
            validate_resource(acl)
            validate_new_acl(acl)
        except InvalidAclError as error:
            raise DocumentError(place, str(error)) from error
        yield acl


def _check_keys(
    place: str, value: Value, *, required: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    if not isinstance(value, dict):
        raise DocumentError(place, f"expected a mapping, found {_kind(value)}")
    for key in value:
        if key not in required and key not in optional:
            known = ", ".join((*required, *optional))
            raise DocumentError(place, f"unknown key {key!r}: expected one of {known}")
    for key in required:
        if key not in value:
            raise DocumentError(place, f"missing key {key!r}")


def _text(place: str, key: str, value: Value) -> str:
    if not isinstance(value, str):
        raise DocumentError(f"{place}.{key}", f"expected text in quotes, found {_kind(value)}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise DocumentError(f"{place}.{key}", "expected text, found half of a surrogate pair")
    return value


def _code(place: str, key: str, value: Value, codes: type[Code]) -> int:
    """Return the code of one of Kafka's names, regardless of its case and of any ``_``."""
    name = _text(place, key, value)
    code = _CODES[codes].get(ascii_upper(name.replace("_", "")))
    if code is None:
        raise DocumentError(f"{place}.{key}", f"unknown {codes.__name__} {name!r}")
    return code


_CODES: Final[dict[type[Code], dict[str, int]]] = {
    codes: {code.name.replace("_", ""): int(code) for code in codes}
    for codes in (ResourceType, PatternType, Operation, PermissionType)
}


def _kind(value: Value) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:80]!r}"


PARSERS: Final[Mapping[str, Callable[[str], Value]]] = {
    ".yaml": parse_yaml,
    ".yml": parse_yaml,
    ".json": parse_json,
}
"""Parsers by the suffix of the file's name."""
