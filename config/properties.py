"""The Java properties format, read as by java.util.Properties.load.

**Invariant:** every text gives the same keys and values as in Java, or a ConfigurationError with
the line. There are two exceptions. Half of a surrogate pair is rejected, since no principal or path
can contain it. A lone backslash at the very end sets nothing, where Java reads an empty key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from authorizerd.config.errors import ConfigurationError, InvalidValueError

OVERRIDE_SOURCE = "--override"

_BLANKS = " \t\f"
_COMMENTS = ("#", "!")
_LINE_END = re.compile(r"\r\n|\r|\n")  # str.splitlines would split at \v, \f and U+0085 too
_SEPARATED = re.compile(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)")
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9A-Fa-f]{4})|(?P<character>.))")
_CONTROLS = {"t": "\t", "r": "\r", "n": "\n", "f": "\f"}
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """A key, its value, and where it was set. An override has no line.

    ``earlier_line`` is the line of the same key whose value this one replaces, if there is one.
    ``is_provided`` says that a part of the value comes from a configuration provider, so that no
    error may show the value.
    """

    key: str
    value: str
    source: str
    line: int | None
    earlier_line: int | None = None
    is_provided: bool = False


def parse_properties(text: str, *, source: str) -> dict[str, Property]:
    """Return the properties of ``text`` by key. Of equal keys, the last one counts, as in Java.

    Args:
        source: the name of the text in errors. A property's line (from 1) is the first physical
            line of its logical line.

    Raises:
        ConfigurationError: a malformed ``\\u`` escape, or half of a surrogate pair.

    Source: java.util.Properties.load(Reader), OpenJDK 17.
    """
    properties: dict[str, Property] = {}
    for line, logical in _logical_lines(text):
        separated = _SEPARATED.fullmatch(logical)
        assert separated is not None
        try:
            key = _unescape(separated["key"])
            value = _unescape(separated["value"])
        except InvalidValueError as error:
            raise ConfigurationError(source, line, "", str(error)) from None
        earlier = properties[key].line if key in properties else None
        properties[key] = Property(
            key=key, value=value, source=source, line=line, earlier_line=earlier
        )
    return properties


def parse_override(override: str) -> Property:
    """Return the property of one ``KEY=VALUE`` of the command line. It has no escapes.

    Raises:
        ConfigurationError: no ``=``, no key, or bytes that are not UTF-8.
    """
    key, equals, value = override.partition("=")
    key = key.strip()
    if not (key and equals):
        shown = "a text without a key" if equals else "a text without '='"
        reason = f"expected KEY=VALUE, found {shown} (not shown, since it may hold a secret)"
        raise ConfigurationError(OVERRIDE_SOURCE, None, "", reason)
    try:
        value = _join_surrogates(value)
        return Property(key=_join_surrogates(key), value=value, source=OVERRIDE_SOURCE, line=None)
    except InvalidValueError:
        # Python decodes invalid bytes of the command line as lone surrogates.
        raise ConfigurationError(OVERRIDE_SOURCE, None, key, "expected UTF-8") from None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each logical line and the number of its first physical line."""
    logical, first = "", 0
    for number, physical in enumerate(_LINE_END.split(text), start=1):
        piece = physical.lstrip(_BLANKS)
        if not logical:
            if not piece or piece.startswith(_COMMENTS):
                continue
            first = number
        backslashes = len(piece) - len(piece.rstrip("\\"))
        # If the number of backslashes is even, each pair is an escaped backslash.
        if backslashes % 2:
            logical += piece[:-1]
            continue
        yield first, logical + piece
        logical = ""
    # After a lone backslash at the end, set nothing. Java may set an empty key there.
    if logical:
        yield first, logical


def _unescape(text: str) -> str:
    return _join_surrogates(_ESCAPE.sub(_unescaped, text))


def _unescaped(escape: re.Match[str]) -> str:
    if escape["code"] is not None:
        return chr(int(escape["code"], 16))
    character = escape["character"]
    if character == "u":
        raise InvalidValueError("malformed escape: expected four hexadecimal digits after \\u")
    return _CONTROLS.get(character, character)


def _join_surrogates(text: str) -> str:
    """Return ``text`` with each surrogate pair replaced by its character."""
    if _SURROGATE.search(text) is None:
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise InvalidValueError("expected a surrogate pair, found half of one") from None
