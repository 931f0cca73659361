"""ACLs written by hand or by a program: a YAML or JSON document of a small, strict form.

    acls:
      - principal: User:alice
        host: 10.0.0.7            # every host, "*", if left out
        operation: [READ, WRITE]  # one, or a list
        permission_type: ALLOW
        resource_type: TOPIC
        resource_name: orders
        pattern_type: PREFIXED    # LITERAL if left out

**Invariant:** nothing is guessed. An unknown key, a value of the wrong kind, a key or an ACL that
stands twice, and an ACL that Kafka would refuse to create: each is an error that names its place.
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
"""What a document holds, before anything is known of it."""

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
    """A document that is not of the form above; ``place`` is as in ``acls[3].operation``."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason


def parse_yaml(text: str) -> Value:
    """Return the value of a YAML document.

    Raises:
        DocumentError: it is none, or a key stands twice in one mapping.
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
    """Refuse what is nested so deep that the loader, native code, would end the process."""
    depth = 0
    for event in yaml.parse(text, Loader=_SAFE_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEPTH_MAX:
                raise DocumentError(f"line {event.start_mark.line + 1}", "nested too deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _StrictLoader(_SAFE_LOADER):  # type: ignore[misc]
    """The loader of plain values, which takes no key twice.

    Nor does it merge mappings into others: a few lines of that can make any amount of keys.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            fault = None
            if key.tag == _MERGE_TAG:
                fault = "a merge key, which is not taken"
            elif (key.tag, key.value) in seen:
                fault = f"key {key.value!r} stands twice"
            if fault is not None:
                raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
            seen.add((key.tag, key.value))
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def parse_json(text: str) -> Value:
    """Return the value of a JSON document.

    Raises:
        DocumentError: it is none, or a key stands twice in one object.
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
            raise DocumentError("document", f"key {key!r} stands twice in one object")
        held[key] = value
    return held


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def read_document(value: Value) -> Iterator[Acl]:
    """Yield the ACLs of a document's value, in its order.

    Raises:
        DocumentError: it is not of the form that this module tells.
    """
    _check_keys("document", value, required=("acls",), optional=())
    entries = value["acls"]
    if not isinstance(entries, list):
        raise DocumentError("acls", f"a list of ACLs is needed, not {_kind(entries)}")
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
        raise DocumentError(f"{place}.operation", "an empty list gives no ACL")
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
        raise DocumentError(place, f"a mapping is needed, not {_kind(value)}")
    for key in value:
        if key not in required and key not in optional:
            known = ", ".join((*required, *optional))
            raise DocumentError(place, f"unknown key {key!r}; known are {known}")
    for key in required:
        if key not in value:
            raise DocumentError(place, f"lacks {key!r}")


def _text(place: str, key: str, value: Value) -> str:
    if not isinstance(value, str):
        raise DocumentError(f"{place}.{key}", f"text is needed, not {_kind(value)}: quote it")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise DocumentError(f"{place}.{key}", "half a surrogate pair, which is no text")
    return value


def _code(place: str, key: str, value: Value, codes: type[Code]) -> int:
    """Return the code that a name stands for: Kafka's, in any case, with or without ``_``."""
    name = _text(place, key, value)
    code = _CODES[codes].get(ascii_upper(name.replace("_", "")))
    if code is None:
        raise DocumentError(f"{place}.{key}", f"{name!r} is no {codes.__name__}")
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
"""By the end of a file's name: what reads it."""
