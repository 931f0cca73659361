"""Parse YAML and JSON strictly, with bounded memory, and find places in a text.

**Invariant:** nothing is guessed. A text that is malformed or repeats a key is an error that names
the place. Aliases and merge keys count as copies of what they stand for, so a few lines never
become a value that fills the memory.

Lines are not kept during parsing: most texts have no error, and a line per value would slow
reading. Instead, ``add_position`` parses a text again, up to the position.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import yaml

from authorizerd.management.formats.model import AclTextError
from authorizerd.management.formats.values import DOCUMENT, Value

_DEPTH_MAX: Final = 16
_VALUES_MAX: Final = 10_000_000
"""The maximum number of values of a text; every alias counts as a copy."""
_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_BINARY_TAG: Final = "tag:yaml.org,2002:binary"
SAFE_LOADER: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Size(NamedTuple):
    """The number of values in a value, including itself, and its depth of nesting."""

    values: int
    levels: int


def check_size(text: str) -> None:
    """Reject deep nesting, which would crash the process, and texts that aliases make too large.

    An alias counts as a copy of its value. So a few lines of aliases stand for very many values.
    """
    anchors: dict[str | None, _Size] = {}
    outer: list[tuple[str | None, _Size]] = [(None, _Size(0, 0))]
    for event in yaml.parse(text, Loader=SAFE_LOADER):
        anchor, size = getattr(event, "anchor", None), _Size(0, 0)
        if isinstance(event, yaml.CollectionStartEvent):
            outer.append((anchor, _Size(1, 1)))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = outer.pop()
            anchors[anchor] = size
        elif isinstance(event, yaml.ScalarEvent):
            anchors[anchor] = size = _Size(1, 0)
        elif isinstance(event, yaml.AliasEvent):
            # A value that has not ended yet would contain itself.
            size = anchors.get(anchor, _Size(0, _DEPTH_MAX + 1))
        name, (values, levels) = outer[-1]
        outer[-1] = name, _Size(values + size.values, max(levels, size.levels + 1))
        fault = None
        if len(outer) - 1 + size.levels > _DEPTH_MAX:
            fault = f"nested more than {_DEPTH_MAX} levels deep"
        elif values + size.values > _VALUES_MAX:
            fault = f"aliases make more than {_VALUES_MAX:,} values in all"
        if fault is not None:
            raise AclTextError(f"line {event.start_mark.line + 1}", fault)


class StrictLoader(SAFE_LOADER):  # type: ignore[misc]
    """A safe YAML loader that also rejects repeated keys.

    If a value does not fit its tag, PyYAML lets Python's errors pass, or shows their texts.
    """

    merges: ClassVar[bool] = True
    """Whether a merge key is read."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        is_unfit = node.tag == _BINARY_TAG and not str(node.value).isascii()
        try:
            if not is_unfit:
                return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError):
            pass
        kind = node.tag.rpartition(":")[2]
        found = repr(node.value[:80]) if isinstance(node, yaml.ScalarNode) else f"a {node.id}"
        fault = f"expected a value of the type {kind!r}, found {found}"
        raise _error(fault, node)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Replace merge keys by the entries that they stand for. The mapping's own keys come first.

        ``check_size`` has counted these entries as copies.
        """
        own: dict[object, tuple[yaml.Node, yaml.Node]] = {}
        merged: dict[object, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            name = _identify(key)
            if name in own:
                raise _error(f"duplicate key {key.value!r}", key)
            own[name] = key, value
        _, source = own.pop((_MERGE_TAG, "<<"), (None, None))
        for each in source.value if isinstance(source, yaml.SequenceNode) else [source]:
            if each is None:
                continue
            if not isinstance(each, yaml.MappingNode):
                raise _error("expected a mapping, or a list of them, after a merge key", each)
            if not self.merges:
                raise _error("this tool does not read merge keys: write the keys out", each)
            self.flatten_mapping(each)
            for pair in each.value:
                merged.setdefault(_identify(pair[0]), pair)
        node.value = list({**merged, **own}.values())
        super().flatten_mapping(node)


class UnmergedLoader(StrictLoader):
    """For tools that read YAML with Jackson, which does not know merge keys."""

    merges = False


def _identify(key: yaml.Node) -> object:
    """Return a value that is the same for equal keys. Keys other than scalars are unreadable
    anyway."""
    return (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key)


def _error(fault: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, fault, node.start_mark)


def parse_yaml(text: str, loader: type[StrictLoader] = StrictLoader) -> Value:
    """Return the value of a YAML text with at most one document."""
    return _parse_yaml(text, lambda: yaml.load(text, Loader=loader))  # noqa: S506 - safe


def parse_yaml_documents(text: str, loader: type[StrictLoader] = StrictLoader) -> list[Value]:
    """Return the values of all documents of a YAML text; those without content are left out."""
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
    """
    if text.lstrip().startswith("{"):
        return [(DOCUMENT, parse_json(text))]
    values = parse_yaml_documents(text, StrictLoader if merges else UnmergedLoader)
    if len(values) == 1:
        return [(DOCUMENT, values[0])]
    return [(f"{DOCUMENT}[{number}]", value) for number, value in enumerate(values)]


def parse_document(text: str, *, merges: bool = True) -> Value:
    """Return the value of a YAML or JSON text with one document."""
    if text.lstrip().startswith("{"):
        return parse_json(text)
    return parse_yaml(text, StrictLoader if merges else UnmergedLoader)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


Step: TypeAlias = "str | int"
"""A key of a mapping, or the number of an item."""
Events: TypeAlias = Iterator[yaml.Event]

_PLACE: Final = re.compile(r"\w[\w-]*(?:\.\w[\w-]*|\[[0-9]+\])*", re.ASCII)
_STEP: Final = re.compile(r"([\w-]+)|\[([0-9]+)\]", re.ASCII)
_EMPTY: Final = frozenset(("", "~", "null"))


def add_position(error: AclTextError, text: str) -> AclTextError:
    """Return the error with the line and column of its place.

    The error is returned unchanged if the place is not a path in the text.
    """
    mark = _find_mark(text, error.place, error.key)
    if mark is None:
        return error
    place = f"line {mark.line + 1}, column {mark.column + 1}: {error.place}"
    return AclTextError(place, error.reason)


def _find_mark(text: str, place: str, key: str | None) -> yaml.Mark | None:
    match = _PLACE.match(place)
    if match is None or (place == DOCUMENT and key is None):
        return None
    steps: list[Step] = [word or int(number) for word, number in _STEP.findall(match[0])]
    number = 0
    if steps[0] == DOCUMENT:
        del steps[0]
        if steps and isinstance(steps[0], int):
            number = steps.pop(0)
    if key is not None:
        steps.append(key)
    try:
        events = yaml.parse(text, Loader=SAFE_LOADER)
        root = _find_document(events, number)
        return None if root is None else _find(events, root, steps)
    except (yaml.YAMLError, ValueError):
        return None  # some JSON is not YAML


def _find_document(events: Events, number: int) -> yaml.Event | None:
    """Return the first event of a document's value. Documents without content do not count."""
    for event in events:
        if not isinstance(event, yaml.DocumentStartEvent):
            continue
        root = next(events)
        if isinstance(root, yaml.ScalarEvent) and root.implicit[0] and root.value in _EMPTY:
            continue
        if not number:
            return root
        number -= 1
        _skip(events, root)
    return None


def _find(events: Events, event: yaml.Event, steps: list[Step]) -> yaml.Mark | None:
    """Return the place of the value, or of the innermost existing value around it."""
    mark: yaml.Mark | None = None
    for step in steps:
        entry = _find_entry(events, event, step)
        if entry is None:
            break
        key_mark, event = entry
        mark = event.start_mark
        if key_mark is not None and key_mark.line != mark.line:
            mark = key_mark
    return mark


def _find_entry(
    events: Events, event: yaml.Event, step: Step
) -> tuple[yaml.Mark | None, yaml.Event] | None:
    """Return the mark of the key, if there is one, and the first event of the value."""
    if isinstance(event, yaml.SequenceStartEvent) and isinstance(step, int):
        for number, item in enumerate(_entries(events)):
            if number == step:
                return None, item
    elif isinstance(event, yaml.MappingStartEvent):
        for key in _entries(events, skips=False):
            if isinstance(key, yaml.ScalarEvent) and key.value == step:
                return key.start_mark, next(events)
            _skip(events, key)
            _skip(events, next(events))
    return None


def _entries(events: Events, *, skips: bool = True) -> Iterator[yaml.Event]:
    """Yield the first event of each item or key."""
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            return
        yield event
        if skips:
            _skip(events, event)


def _skip(events: Events, event: yaml.Event) -> None:
    """Skip the rest of a value whose first event is ``event``."""
    depth = 0
    while True:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if not depth:
            return
        event = next(events)
