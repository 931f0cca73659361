"""Find the line of a place in a YAML or JSON text, for an error that names the place.

Why not keep the lines while a text is parsed? Most texts have no error, and a line for each value
would make reading slower. So the text is parsed once more, up to the place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

import yaml

from authorizerd.acl.formats.model import AclTextError
from authorizerd.acl.formats.values import DOCUMENT
from authorizerd.acl.formats.yaml_loader import SAFE_LOADER

Step: TypeAlias = "str | int"
"""A key of a mapping, or a number of an item."""
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
    """Return where the value is, or the innermost value around it that exists.

    Args:
        event: the first one of the value that the steps begin at.
    """
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
    """Yield the first event of each item or key.

    Args:
        skips: whether to skip the rest of each item before the next one.
    """
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
