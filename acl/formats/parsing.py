"""Parse YAML and JSON strictly.

**Invariant:** nothing is guessed. A text that is malformed or repeats a key is an error that names
the place.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from authorizerd.acl.formats.model import AclTextError
from authorizerd.acl.formats.values import DOCUMENT, Value
from authorizerd.acl.formats.yaml_loader import StrictLoader, UnmergedLoader, check_size


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
