"""Load YAML strictly, and only as much as its text is long.

**Invariant:** aliases and merge keys count as copies of what they stand for, so a few lines never
become a value that fills the memory. A repeated key is an error.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

import yaml

from authorizerd.acl.formats.model import AclTextError

_DEPTH_MAX: Final = 16
_VALUES_MAX: Final = 10_000_000
"""Of one text, with every alias counted as a copy."""
_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_BINARY_TAG: Final = "tag:yaml.org,2002:binary"
SAFE_LOADER: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Size(NamedTuple):
    """The number of values in a value, with itself, and of its levels of collections."""

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

    PyYAML lets errors of Python pass, or shows their texts, if a value does not fit its tag.
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
        """Replace merge keys by what they stand for. Keys of the mapping itself come first.

        ``check_size`` has counted what they stand for as copies.
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
    """Return a value that equal keys share. Keys other than scalars cannot be read anyway."""
    return (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else id(key)


def _error(fault: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, fault, node.start_mark)
