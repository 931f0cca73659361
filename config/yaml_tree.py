"""Read a YAML document as a tree of texts, lists and mappings, each with its line and column.

**Invariant:** a document means what a reader sees. YAML would read ``no`` as false, ``1_000`` as a
number, and ``*name`` as an alias. Here a plain word is a text only if YAML agrees. Otherwise,
YAML's type of it is kept, and reported if a text is expected. Anchors, aliases, tags, merge keys,
repeated keys and several documents are faults, so a small file cannot become a large tree.

PyYAML only splits the text into events. Its own composer recurses, expands aliases, and keeps the
last of repeated keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import yaml

from authorizerd.config.yaml_fault import Fault

DEPTH_MAX: Final = 8
NODES_MAX: Final = 200_000

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAGS: Final = "tag:yaml.org,2002:"
_TEXT: Final = "str"
_KINDS: Final = {
    "bool": "a boolean", "int": "a number", "float": "a number", "null": "nothing",
    "timestamp": "a date", "merge": "a merge key", "value": "a default key",
}  # fmt: skip
_QUOTE: Final = "quote it if it is a text"


class Text(NamedTuple):
    """A scalar. ``kind`` is None for a text, or names YAML's kind, such as a boolean.

    ``is_exact``: the text begins right at ``column`` and is on one line, so positions in it are
    positions in the file.
    """

    value: str
    line: int
    column: int
    kind: str | None = None
    is_exact: bool = True


class Items(NamedTuple):
    """A list."""

    nodes: tuple[Node, ...]
    line: int
    column: int


class Fields(NamedTuple):
    """A mapping, in the order of the file."""

    pairs: dict[str, tuple[Text, Node]]
    line: int
    column: int


Node: TypeAlias = Text | Items | Fields


class YamlError(Exception):
    """The text is not such a document."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


def read_yaml(text: str) -> Node:
    """Return the tree of a document."""
    try:
        return _Composer(text).compose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
        reason = f"not YAML: {error.problem or 'invalid'}"
        raise YamlError(Fault(line, column, _advise(reason))) from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position] if isinstance(error.position, int) else ""
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise YamlError(Fault(line, column, f"not YAML: {error.reason}")) from error
    except yaml.YAMLError as error:
        raise YamlError(Fault(1, 1, f"not YAML: {str(error).splitlines()[0]}")) from error


def _advise(reason: str) -> str:
    """Add advice to PyYAML's text for a word that begins with a special character."""
    # The words are those of libyaml and of PyYAML's own scanner.
    if "alphabetic or numeric" in reason or "cannot start any token" in reason:
        return f"{reason}: quote a text that begins with a special character"
    return reason


class _Composer:
    """Builds the tree from a stream of events, with limits."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=_LOADER))
        self._resolver = yaml.resolver.Resolver()
        self._nodes = 0

    def compose(self) -> Node:
        root: Node | None = None
        for event in self._events:
            if isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent, yaml.AliasEvent)):
                root = self._compose_node(event, 1)
            elif isinstance(event, yaml.DocumentStartEvent) and root is not None:
                self._refuse(event, "expected one document, found a second one")
        if root is None:
            raise YamlError(Fault(1, 1, "expected a document, found nothing"))
        return root

    def _compose_node(self, event: Any, depth: int) -> Node:  # noqa: ANN401 - an event of PyYAML
        self._check(event, depth)
        line, column = _place(event)
        if isinstance(event, yaml.ScalarEvent):
            return self._compose_text(event)
        if isinstance(event, yaml.SequenceStartEvent):
            nodes: list[Node] = []
            while not isinstance(inner := next(self._events), yaml.SequenceEndEvent):
                nodes.append(self._compose_node(inner, depth + 1))
            return Items(tuple(nodes), line, column)
        pairs: dict[str, tuple[Text, Node]] = {}
        while not isinstance(inner := next(self._events), yaml.MappingEndEvent):
            key = self._compose_key(inner, pairs)
            pairs[key.value] = key, self._compose_node(next(self._events), depth + 1)
        return Fields(pairs, line, column)

    def _compose_key(self, event: Any, pairs: dict[str, tuple[Text, Node]]) -> Text:  # noqa: ANN401 - an event of PyYAML
        self._check(event, 1)
        if not isinstance(event, yaml.ScalarEvent):
            self._refuse(event, "expected a text as a key")
        key = self._compose_text(event)
        if key.kind is not None:
            self._refuse(event, f"expected a text as a key, found {describe(key)}")
        if key.value in pairs:
            first = pairs[key.value][0].line
            self._refuse(event, f"duplicate key {key.value!r}: it is also in line {first}")
        return key

    def _compose_text(self, event: Any) -> Text:  # noqa: ANN401 - an event of PyYAML
        line, column = _place(event)
        is_plain = event.implicit[0]
        kind = None
        if is_plain:
            tag = self._resolver.resolve(yaml.ScalarNode, event.value, (True, False))
            name = tag.removeprefix(_TAGS)
            kind = None if name == _TEXT else _KINDS.get(name, name)
        offset = column - 1 if is_plain else column
        shown = self._lines[line - 1][offset:] if line <= len(self._lines) else ""
        is_exact = shown.startswith(event.value) and event.style not in ("|", ">")
        return Text(event.value, line, offset + 1 if is_exact else column, kind, is_exact)

    def _check(self, event: Any, depth: int) -> None:  # noqa: ANN401 - an event of PyYAML
        """Reject constructs that make a document hard to read, or large."""
        if isinstance(event, yaml.AliasEvent):
            found = f"found the alias *{event.anchor}"
            advice = "quote a text that begins with '*'"
            self._refuse(event, f"expected a text or a list, {found}: {advice}")
        if event.anchor is not None:
            found = f"found the anchor &{event.anchor}"
            advice = "anchors are not supported: write the value out"
            self._refuse(event, f"expected a text or a list, {found}: {advice}")
        if event.tag is not None:
            self._refuse(event, f"expected no tag, found {event.tag}: {_QUOTE}")
        self._nodes += 1
        if self._nodes > NODES_MAX:
            self._refuse(event, f"expected at most {NODES_MAX} values")
        if depth > DEPTH_MAX:
            self._refuse(event, f"nested more than {DEPTH_MAX} levels deep")

    def _refuse(self, event: Any, reason: str) -> NoReturn:  # noqa: ANN401 - an event of PyYAML
        raise YamlError(Fault(*_place(event), reason))


def _place(event: Any) -> tuple[int, int]:  # noqa: ANN401 - an event of PyYAML
    return event.start_mark.line + 1, event.start_mark.column + 1


def describe(node: Node) -> str:
    """Return what a node is, for errors about an unexpected one."""
    if isinstance(node, Items):
        return "a list"
    if isinstance(node, Fields):
        return "a mapping"
    shown = repr(node.value if len(node.value) <= 80 else f"{node.value[:80]}…")
    if node.kind is None:
        return f"the text {shown}"
    return node.kind if not node.value else f"{node.kind}, {shown}: {_QUOTE}"
