"""The last head of a connection: most clients send nearly the same head with each request.

Only the differences are parsed again: parsing a whole head takes half as long as a decision.

**Invariant:** the result is the same as from ``parse_head``. Secrets, and values that differ from
request to request, are not kept: they are read from each head.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from authorizerd.protocol.http.request_head import (
    LENGTH_DIGITS_MAX,
    Head,
    PlacedHead,
    ReadHead,
    RepeatedHeaders,
)

HEAD_BYTES_MAX: Final = 1024
"""Longer heads are neither remembered nor recognized."""
_LENGTH: Final = b"content-length"
_ID: Final = b"x-request-id"
_OF_GATEWAYS: Final = (
    b"x-original-method", b"x-original-uri", b"x-forwarded-method", b"x-forwarded-uri",
    b"x-forwarded-user", b"x-forwarded-for", b"x-real-ip",
)  # fmt: skip
"""What a gateway says about the request of a user."""
_LEFT_OUT: Final = (_LENGTH, b"authorization", _ID, b"traceparent", *_OF_GATEWAYS)
_LINE: Final = re.compile(rb"\r\n(%b):[ \t]*+([^\r\n]++)" % b"|".join(_LEFT_OUT), re.IGNORECASE)
_VALUE: Final = re.compile(rb"[!-~](?:[ -~]*+(?<! ))?")
"""The values that are read: printable ASCII, without blanks at the ends."""
_NOT_KEPT: Final = frozenset(
    (b"cookie", b"expect", b"proxy-authorization", b"x-api-key", b"x-auth-token")
)


class LastHead(NamedTuple):
    """A head without the omitted values.

    ``before`` is its text up to the first omitted value. ``rest`` has the names of these values,
    each with the text from there to the next value, or to the end. No head of more than
    ``bytes_max`` is recognized.
    """

    before: bytes
    rest: tuple[tuple[bytes, bytes], ...]
    head: Head
    bytes_max: int
    headers: dict[bytes, bytes]
    length: int

    def take(self, received: bytes, start: int) -> PlacedHead | None:
        """Return the head at ``start`` of ``received``; None if it differs in any other way."""
        before, rest, head, bytes_max, headers, length = self
        if not received.startswith(before, start):
            return None
        headers, echo, position = headers.copy(), b"", start + len(before)
        end_max = start + bytes_max
        for name, after in rest:
            found = _VALUE.match(received, position, end_max)
            if found is None:
                return None
            end = found.end()
            if not received.startswith(after, end):
                return None
            headers[name] = value = found[0]
            if name == _LENGTH:
                if not value.isdigit() or len(value) > LENGTH_DIGITS_MAX:
                    return None
                length = int(value)
            elif name == _ID:
                echo = b"X-Request-ID: %b\r\n" % value
            position = end + len(after)
        if position > end_max:
            return None
        return head, headers, echo, length, position


def remember_head(text: bytes, read: ReadHead, bytes_max: int) -> LastHead | None:
    """Return a pattern that recognizes such a head; None if it is unusual or has other secrets.

    Args:
        bytes_max: a size within which no head exceeds a limit.
    """
    head, headers, _, length = read
    if isinstance(headers, RepeatedHeaders):
        return None
    headers = dict(headers)
    bytes_max = min(bytes_max, HEAD_BYTES_MAX)
    if len(text) > bytes_max or head.query or not _NOT_KEPT.isdisjoint(headers):
        return None
    names, texts, position = [], [], 0
    for line in _LINE.finditer(text):
        name = line[1].lower()
        if headers.pop(name, b"") != line[2]:  # it is repeated, or has trailing spaces
            return None
        names.append(name)
        texts.append(text[position : line.start(2)])
        position = line.end()
    if any(name in headers for name in _LEFT_OUT):  # it has no value
        return None
    before, *after = (*texts, text[position:])
    return LastHead(before, tuple(zip(names, after, strict=True)), head, bytes_max, headers, length)
