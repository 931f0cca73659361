"""One key of server.properties, declared once, as an attribute of a class.

The attribute's name is the key's, with dots and the prefix of its class. The annotation is the type
of its field in ``Configuration``, and the text below it is its description::

    audit_queue_max: int = setting(IntegerParser(1, 1_000_000), "10000")
    '''Maximum number of audit lines that wait to be written.'''

**Invariant:** a default is text that goes through the key's own parser, so the reference shows it
as it would be written in a file.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any, Final, TypeVar, overload

OWN_PREFIX: Final = "authorizerd."
"""The prefix of the keys that Kafka does not have."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Key:
    """A key. Without a ``default``, it has no value unless it is set.

    ``parse`` gets the trimmed text, and raises InvalidValueError. A reloadable key is read again on
    reload, any other key only when the daemon starts. ``wire_minimum`` is the minimum that a client
    may set while the daemon runs: a smaller limit could lock out everyone who could raise it.

    A key in a class is read only by rules; a key with a field is a ``setting``.
    """

    parse: Callable[[str], Any]
    default: str | None = None
    reloadable: bool = False
    wire_minimum: int | None = None
    name: str = ""
    describe: Callable[[], str] = field(default=str, compare=False)

    @property
    def doc(self) -> str:
        """The description. The first access in a module is slow, because it reads the module's
        source."""
        return self.describe()


@overload
def setting(
    parse: Callable[[str], Value],
    default: str,
    *,
    reloadable: bool = False,
    wire_minimum: int | None = None,
) -> Value: ...


@overload
def setting(parse: Callable[[str], Value]) -> Value | None: ...


def setting(parse: Callable[[str], Any], default: str | None = None, **traits: Any) -> Any:
    """Return a field whose value is that of a key; the arguments are those of ``Key``."""
    make = partial(parse, default) if default is not None else lambda: None
    return field(default_factory=make, metadata={_KEY: Key(parse, default, **traits)})


by_rule: Final[Callable[..., Any]] = setting
"""Like ``setting``, for a field whose value a rule derives from several keys, with another type."""

_KEY: Final = "key"


def list_keys(owner: type, prefix: str = "", *, of: str = "") -> Mapping[str, Key]:
    """Return the keys that a class states, by attribute and in order.

    Args:
        of: names, in each description, the ports that use the keys.
    """
    stated: Mapping[str, Any] = getattr(owner, "__dataclass_fields__", vars(owner))
    keys = {name: _find_key(value) for name, value in stated.items()}
    return {
        attribute: replace(
            key,
            name=prefix + attribute.replace("_", "."),
            describe=partial(_describe, owner, attribute, of),
        )
        for attribute, key in keys.items()
        if isinstance(key, Key)
    }


def select_settings(owner: type, keys: Mapping[str, Key]) -> Mapping[str, Key]:
    """Return the ``keys`` that are fields of a class, by the name of the field."""
    return {field.name: keys[field.name] for field in fields(owner) if field.name in keys}


def _find_key(value: object) -> object:
    return value.metadata.get(_KEY, value.default) if isinstance(value, Field) else value


def _describe(owner: type, attribute: str, of: str) -> str:
    text = _read_texts(owner.__module__)[owner.__name__, attribute]
    return " ".join(text.replace("{of}", of).split())


@cache
def _read_texts(module: str) -> Mapping[tuple[str, str], str]:
    """Return the docstring below each attribute of each class, which Python discards."""
    texts = {}
    stated = ast.parse(inspect.getsource(sys.modules[module])).body
    for owner in (node for node in stated if isinstance(node, ast.ClassDef)):
        for statement, below in pairwise(owner.body):
            match statement, below:
                case (
                    ast.Assign(targets=[ast.Name(id=name)])
                    | ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    texts[owner.name, name] = text
    return texts
