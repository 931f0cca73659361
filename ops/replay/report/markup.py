"""Elements of a page, made of text that nobody vouches for.

**Invariant:** what is no ``Markup`` is text, and is escaped where it enters an element; nothing
else makes ``Markup`` of a name. What a screen would take for a command (control characters, marks
that turn the direction of what follows) stands there as its escape sequence.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from authorizerd.replay.whatif.report import shown

_VOID: Final = frozenset({"meta"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


NOTHING: Final = Markup()


def element(tag: str, *children: str, **attributes: str | float | None) -> Markup:
    """Return an element; an attribute of None is left out, ``aria_label`` is ``aria-label``."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_escaped(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        assert not children
        return Markup(f"<{tag}{named}/>")
    return Markup(f"<{tag}{named}>{joined(children)}</{tag}>")


def joined(children: Iterable[str]) -> Markup:
    """Return the children one after the other, those escaped that are text."""
    return Markup(
        "".join(child if isinstance(child, Markup) else _escaped(child) for child in children)
    )


def code_element(tag: str, code: str) -> Markup:
    """Return a ``style`` or ``script`` of our own making, which a browser reads unescaped."""
    assert "</" not in code
    assert "<!--" not in code
    return Markup(f"<{tag}>{code}</{tag}>")


def _escaped(text: str) -> str:
    return escape(shown(text), quote=True)
