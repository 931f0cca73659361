"""The text of a certificate's subject, exactly as Java's ``X500Principal.getName()`` writes it.

ACLs and mapping rules written for Kafka contain this text, including Java's oddities: the
characters ``#`` and ``=`` are always escaped, and an e-mail address has no keyword.

Java releases before April 2026 read strings of every type as UTF-8, so a BMPString could be read as
a name that its issuer never saw. This module decodes each string by its type, as later releases do.

**Invariant:** for any bytes, a function returns a text or raises DistinguishedNameError.

Source: RFC 2253; sun.security.x509.X500Name, RDN and AVA of Java 25.0.3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

from authorizerd.acl.text.distinguished_names import JAVA_KEYWORDS, escape_value
from authorizerd.tls.der import (
    OBJECT_IDENTIFIER,
    SEQUENCE,
    SET,
    Element,
    object_identifier_text,
    read_element,
    read_elements,
)
from authorizerd.tls.errors import DistinguishedNameError, InvalidDerError

NAME_BYTES_MAX: Final = 2048
"""Maximum size of an encoded name, which the peer chooses. Its text is at most 4 times longer."""

ATTRIBUTES_MAX: Final = 24
"""Maximum number of attributes in a name, and of its parts (RDNs).

A mapping rule with five groups takes seconds for a hundred attributes, and blocks the event loop.
"""

_UTF8_STRING: Final = 0x0C
_BMP_STRING: Final = 0x1E
_LATIN_1: Final = "latin-1"
# By tag. As in Java, values of other types, such as UniversalString, are written in hexadecimal.
_ENCODINGS: Final = {
    _UTF8_STRING: "utf-8",
    0x13: _LATIN_1,  # PrintableString
    0x14: _LATIN_1,  # T61String
    0x16: _LATIN_1,  # IA5String
    0x1B: _LATIN_1,  # GeneralString
    _BMP_STRING: "utf-16-be",
}
# Java reads an encoded surrogate as one invalid character, Python as two or three.
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_INVALID_BYTE: Final = b"\xff"

_VERSION: Final = 0xA0
_SUBJECT_PLACE: Final = 4  # after serial number, signature algorithm, issuer and validity


def subject_name(certificate_der: bytes) -> bytes:
    """Return the DER subject of a DER certificate. ``rfc2253`` returns its text.

    Raises:
        DistinguishedNameError: the bytes are not a certificate.
    """
    try:
        signed = next(read_elements(read_element(certificate_der, SEQUENCE)), None)
        if signed is None or signed.tag != SEQUENCE:
            raise InvalidDerError("expected a TBSCertificate")
        fields = list(read_elements(signed.content))
    except InvalidDerError as error:
        raise DistinguishedNameError(f"invalid certificate: {error}") from error
    index = _SUBJECT_PLACE + (fields[0].tag == _VERSION if fields else 0)
    if len(fields) <= index:
        raise DistinguishedNameError("invalid certificate: it has no subject")
    return fields[index].encoded


def rfc2253(name_der: bytes) -> str:
    """Return the text of an encoded X.500 name. An empty name gives an empty text.

    Raises:
        DistinguishedNameError: the name is malformed, longer than NAME_BYTES_MAX, or has more than
            ATTRIBUTES_MAX attributes.
    """
    if len(name_der) > NAME_BYTES_MAX:
        raise DistinguishedNameError(
            f"the name has {len(name_der)} bytes: expected at most {NAME_BYTES_MAX}"
        )
    try:
        parts = _read_some(read_element(name_der, SEQUENCE))
        attributes = [_read_some(read_element(part.encoded, SET)) for part in parts]
        if sum(map(len, attributes)) > ATTRIBUTES_MAX:
            raise InvalidDerError(f"expected at most {ATTRIBUTES_MAX} attributes")
        return ",".join(map(_relative_name_text, reversed(attributes)))
    except InvalidDerError as error:
        raise DistinguishedNameError(f"invalid name: {error}") from error


def _read_some(content: bytes) -> list[Element]:
    elements = list(islice(read_elements(content), ATTRIBUTES_MAX + 1))
    if len(elements) > ATTRIBUTES_MAX:
        raise InvalidDerError(f"expected at most {ATTRIBUTES_MAX} attributes")
    return elements


def _relative_name_text(attributes: Sequence[Element]) -> str:
    """Return the text of one RDN: its attributes, sorted by their encoding."""
    return "+".join(_attribute_text(attribute.encoded) for attribute in attributes)


def _attribute_text(encoded: bytes) -> str:
    pair = list(read_elements(read_element(encoded, SEQUENCE)))
    if len(pair) != 2 or pair[0].tag != OBJECT_IDENTIFIER:
        raise InvalidDerError("expected an attribute: an object identifier and a value")
    identifier, value = object_identifier_text(pair[0].content), pair[1]
    if value.tag == _BMP_STRING:
        _check_bmp_string(value.content)
    keyword = JAVA_KEYWORDS.get(identifier)
    if keyword is None or value.tag not in _ENCODINGS:
        return f"{keyword or identifier}=#{value.encoded.hex()}"
    return f"{keyword}={escape_value(_decode(value))}"


def _check_bmp_string(content: bytes) -> None:
    """Reject a surrogate or an odd last byte, which Java reads as U+FFFD."""
    surrogates = any(byte & 0xF8 == 0xD8 for byte in content[::2])
    if surrogates or len(content) % 2:
        raise InvalidDerError("invalid BMPString: expected two bytes for each character")


def _decode(value: Element) -> str:
    """Decode a string as Java does: invalid bytes become U+FFFD."""
    content = value.content
    if value.tag == _UTF8_STRING:
        content = _SURROGATE.sub(_INVALID_BYTE, content)
    return content.decode(_ENCODINGS[value.tag], "replace")
