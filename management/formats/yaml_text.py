"""Write YAML that is easy to review: block style, one line per value, lists of words on one line.

``yaml.dump`` would write lists and mappings of texts either all on one line or all over many, and
its fast form cannot indent lists below their key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, TypeAlias

Node: TypeAlias = "str | bool | list[Node] | dict[str, Node]"

_PLAIN: Final = re.compile(r"[A-Za-z_](?:[\w.:/=+@*,-]*[\w./=+@*-])?", re.ASCII)
_PLAIN_IN_LIST: Final = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_IPV4: Final = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
_WORDS: Final = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null"))
"""Words that YAML reads as a boolean or as nothing, in any letter case."""


def write_yaml(*documents: Node) -> str:
    """Return the text of documents that ``parse_yaml_documents`` reads back."""
    return "---\n".join("".join(f"{line}\n" for line in _lines(document)) for document in documents)


def _lines(node: Node) -> Iterator[str]:
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _entry(f"{_scalar(key, _PLAIN)}:", value)
    elif isinstance(node, list) and node:
        for item in node:
            first, *others = _lines(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in others)
    else:
        yield _inline(node)


def _entry(key: str, value: Node) -> Iterator[str]:
    is_block = value and (
        isinstance(value, dict)
        or (isinstance(value, list) and not all(isinstance(item, str) for item in value))
    )
    if not is_block:
        yield f"{key} {_inline(value)}"
        return
    yield key
    yield from (f"  {line}" for line in _lines(value))


def _inline(node: Node) -> str:
    if isinstance(node, dict):
        return "{}"
    if isinstance(node, list):
        return f"[{', '.join(_scalar(str(item), _PLAIN_IN_LIST) for item in node)}]"
    return str(node).lower() if isinstance(node, bool) else _scalar(node, _PLAIN)


def _scalar(text: str, plain: re.Pattern[str]) -> str:
    if plain.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return text if _IPV4.fullmatch(text) else quote(text)


def quote(text: str) -> str:
    """Return ``text`` in double quotes, with escapes for characters that do not print."""
    if text.isprintable():
        return json.dumps(text, ensure_ascii=False)
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"
