"""Render the console's templates, in turns.

**Invariant:** every printed text is escaped by markupsafe, and escape sequences replace its
unprintable characters, such as control characters and marks of direction. A misspelled name in a
template is an error, not an empty text. Rendering leaves no reference cycles, which the daemon
would never free (``daemon.process.gc_control``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.actors.steps import collect
from authorizerd.daemon.queries.tables import cut
from authorizerd.protocol.decisions.explanations import QuestionAnswer

_MACROS: Final = tuple(f"{each}.html.jinja" for each in ("facts", "forms", "names", "tables"))
"""The templates that contain only macros."""
_MEDIA_TYPES: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class StaticFile:
    """A file in ``static/``; ``version`` changes with its content."""

    def __init__(self, name: str) -> None:
        self.body: Final = (files(__package__) / "static" / name).read_bytes()
        self.media_type: Final = _MEDIA_TYPES[name]
        self.version: Final = sha256(self.body).hexdigest()[:12]


@cache
def load_static_files() -> Mapping[str, StaticFile]:
    """Return the static files by name. The first call blocks."""
    return MappingProxyType({name: StaticFile(name) for name in _MEDIA_TYPES})


@cache
def load_templates() -> Environment:
    """Return the environment with all templates. The first call blocks: it compiles them."""
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_make_printable,  # runs on each printed value, before it is escaped
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "as_is": _keep_as_is,
        "number": "{:,}".format,
        "cut": cut,
        "question_query": make_question_query,
    }
    environment.globals["versions"] = {
        name: each.version for name, each in load_static_files().items()
    }
    for name in environment.list_templates():
        environment.get_template(name)
    for name in _MACROS:
        _ = environment.get_template(name).module  # compile now, not at the first page
    return environment


async def render(template: str, context: Mapping[str, Any]) -> bytes:
    """Return a page as UTF-8. Like all long work, rendering yields to other tasks."""
    parts = load_templates().get_template(template).generate(context)
    return "".join(await collect(parts)).encode()


def make_question_query(question: QuestionAnswer) -> str:
    """Return the query of the page *Explain* for a question."""
    fields = msgspec.structs.asdict(question)
    return urlencode({name: value for name, value in fields.items() if value is not None})


def _make_printable(value: object) -> object:
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_unprintable(value)
    return value


def _keep_as_is(value: str) -> Markup:
    """Return a field's value as an input's attribute, so that the next request repeats it."""
    return escape(value)
