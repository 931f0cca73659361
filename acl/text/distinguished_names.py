"""Distinguished names in principals, in the forms in which people and programs write them.

Kafka's principal of a client certificate has the text of Java's ``X500Principal.getName()``.
OpenSSL, browsers and other tools write the same name in other ways, and ACLs compare principals as
text.

**Invariant:** a text that is not a distinguished name has no parts. A principal is made only of a
name whose text in Java is certain.

Source: RFC 2253, RFC 4519; sun.security.x509.AVA of Java 25.0.3; OpenSSL X509_NAME_oneline.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from authorizerd.acl.text.letter_case import ascii_upper

JAVA_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that Java writes by a keyword. It writes the others as ``OID=#HEX``."""
COMMON_NAME: Final = "2.5.4.3"
_EMAIL: Final = "1.2.840.113549.1.9.1"
_OTHER_KEYWORDS: Final = {
    "S": "2.5.4.8",
    "SP": "2.5.4.8",
    "USERID": "0.9.2342.19200300.100.1.1",
    "EMAILADDRESS": _EMAIL,
    "EMAIL": _EMAIL,
    "E": _EMAIL,
    "SN": "2.5.4.4",
    "SURNAME": "2.5.4.4",
    "SERIALNUMBER": "2.5.4.5",
    "T": "2.5.4.12",
    "TITLE": "2.5.4.12",
    "DESCRIPTION": "2.5.4.13",
    "POSTALCODE": "2.5.4.17",
    "GIVENNAME": "2.5.4.42",
    "GN": "2.5.4.42",
    "INITIALS": "2.5.4.43",
    "GENERATION": "2.5.4.44",
    "DNQ": "2.5.4.46",
    "DNQUALIFIER": "2.5.4.46",
}
_IDENTIFIERS: Final = _OTHER_KEYWORDS | {word: each for each, word in JAVA_KEYWORDS.items()}

_ATTRIBUTE: Final = r"[A-Za-z][A-Za-z0-9-]*|(?:OID\.)?[0-9]+(?:\.[0-9]+)+"
_PART: Final = re.compile(
    rf"""[ ]*({_ATTRIBUTE})[ ]*=([ ]*"(?:[^"\\]|\\.)*"[ ]*|(?:[^,+"\\]|\\.)*)([,+]|\Z)""",
    re.DOTALL | re.IGNORECASE,
)
_SLASH: Final = re.compile(rf"/(?=[ ]*(?:{_ATTRIBUTE})[ ]*=)")
_ESCAPED: Final = re.compile(r"((?:\\[0-9A-Fa-f]{2})+)|\\(.)", re.DOTALL)
_HEXADECIMAL: Final = re.compile(r"#((?:[0-9A-Fa-f]{2})+)")
_STRING_TAGS: Final = {0x0C: "utf-8", 0x13: "latin-1", 0x14: "latin-1", 0x16: "latin-1"}
_LENGTH_MAX: Final = 0x7F
"""Longer contents have a length of several bytes."""

_SPECIAL: Final = re.compile(r'[,=+<>#;"\\]')
_BLANKS: Final = " \r"


class Part(NamedTuple):
    """An attribute and its value.

    Attributes:
        attribute: an OID, or an unknown keyword in upper case.
        encoded: the value in hexadecimal, after ``#``, if it was written so.
        is_joined: whether ``+`` joins it to the part before.
    """

    attribute: str
    value: str
    encoded: str = ""
    is_joined: bool = False

    def __str__(self) -> str:
        """Return the part with its familiar keyword."""
        word = "EMAILADDRESS" if self.attribute == _EMAIL else JAVA_KEYWORDS.get(self.attribute)
        return f"{word or self.attribute}={self.value}"

    @property
    def is_known(self) -> bool:
        return self.attribute[0].isdigit()

    def fold(self) -> tuple[str, str]:
        """Return the attribute, and the value without insignificant differences."""
        return self.attribute, " ".join(self.value.split()).casefold()


def split_name(name: str) -> tuple[Part, ...]:
    """Return the parts of a distinguished name in Java's order, or nothing if it is not one."""
    if name.startswith("/"):
        return _split_by_slashes(name)
    parts: list[Part] = []
    position, is_joined, ends = 0, False, False
    while not ends:
        match = _PART.match(name, position)
        if match is None:
            return ()
        attribute, text, separator = match.groups()
        parts.append(Part(_identify(attribute), *_read_value(text), is_joined))
        position, is_joined, ends = match.end(), separator == "+", not separator
    return tuple(parts)


def _split_by_slashes(name: str) -> tuple[Part, ...]:
    """Return the parts of ``/C=DE/CN=a``, which begins with the part that Java writes last."""
    pairs = [each.partition("=") for each in _SLASH.split(name)[1:]]
    return tuple(Part(_identify(word), value.strip(_BLANKS)) for word, _, value in reversed(pairs))


def _identify(word: str) -> str:
    upper = ascii_upper(word.strip(_BLANKS)).removeprefix("OID.")
    return _IDENTIFIERS.get(upper, upper)


def _read_value(text: str) -> tuple[str, str]:
    """Return a value without quotes and escapes, and its hexadecimal digits, if it has any."""
    stripped = text.strip(_BLANKS)
    if stripped.startswith('"'):
        return _ESCAPED.sub(_unescape, stripped[1:-1]), ""
    if hexadecimal := _HEXADECIMAL.fullmatch(stripped):
        return _read_string(bytes.fromhex(hexadecimal[1])) or stripped, stripped.lower()
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    if backslashes % 2:  # the last one escapes a blank, or nothing
        stripped = text.lstrip(_BLANKS)[: len(stripped) + 1]
    return _ESCAPED.sub(_unescape, stripped), ""


def _unescape(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[2]
    return bytes.fromhex(match[1].replace("\\", "")).decode("utf-8", "replace")


def _read_string(encoded: bytes) -> str | None:
    """Return a string in DER, or None for values of other types and lengths."""
    encoding = _STRING_TAGS.get(encoded[0])
    if encoding is None or len(encoded) < 2 or len(encoded) != encoded[1] + 2 > _LENGTH_MAX + 2:
        return None
    return encoded[2:].decode(encoding, "replace")


def is_certain(parts: Iterable[Part]) -> bool:
    """Return True if Java's text of these parts does not depend on the types of their values."""
    return all(
        part.encoded or part.attribute == _EMAIL or part.attribute in JAVA_KEYWORDS
        for part in parts
    )


def write_as_java(parts: Iterable[Part]) -> str:
    """Return the text that Java writes for a certificate with these parts.

    A value without a keyword has a type, which is guessed unless it was written in hexadecimal: an
    e-mail address is an IA5String, as RFC 5280 demands, and other values are UTF-8.
    """
    return "".join(_write_parts(parts)).removeprefix(",")


def _write_parts(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        keyword = JAVA_KEYWORDS.get(part.attribute)
        text = _encode(part) if keyword is None else escape_value(part.value)
        yield f"{'+' if part.is_joined else ','}{keyword or part.attribute}={part.encoded or text}"


def _encode(part: Part) -> str:
    tag = 0x16 if part.attribute == _EMAIL else 0x0C
    content = part.value.encode()
    size = len(content)
    length = bytes((size,)) if size <= _LENGTH_MAX else b"\x82" + size.to_bytes(2, "big")
    return f"#{tag:02x}{length.hex()}{content.hex()}"


def escape_value(text: str) -> str:
    """Return a value as Java's ``X500Principal.getName()`` writes it."""
    escaped = _SPECIAL.sub(r"\\\g<0>", text).replace("\0", "\\00")
    kept = escaped.lstrip(_BLANKS)
    leading, trailing = escaped[: len(escaped) - len(kept)], kept[len(kept.rstrip(_BLANKS)) :]
    kept = kept.rstrip(_BLANKS)
    return "".join((*_escape_each(leading), kept, *_escape_each(trailing)))


def _escape_each(blanks: str) -> Iterator[str]:
    return (f"\\{blank}" for blank in blanks)
