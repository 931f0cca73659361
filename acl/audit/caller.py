"""The caller of an audited decision, and the group that names it in a line in Kafka's format.

**Invariant:** nothing that a client chooses can end or imitate the group. What the client sends is
left out unless it has exactly the expected form. A line that has the beginning of a group
anywhere else is ambiguous.

Source: W3C Trace Context (traceparent).
"""

from __future__ import annotations

import re
from typing import Final, Protocol
from urllib.parse import quote, unquote

import msgspec

from authorizerd.acl.audit.line import LOGGER_NAME

UNIX_ADDRESS: Final = "unix"
"""The address of a client that is connected by a Unix socket."""
REQUEST_ID_MAX: Final = 128

_REQUEST_ID: Final = re.compile(rb"[!-~]{1,%d}" % REQUEST_ID_MAX)
_TRACEPARENT: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_ENCODED: Final = "[!-Z^-~]"  # visible ASCII without brackets and the backslash
CALLER_GROUP: Final = (
    rf"\[knownBy=[A-Za-z]{{1,20}}(?: caller={_ENCODED}*)? address={_ENCODED}{{1,200}}"
    rf"(?: requestId={_ENCODED}{{1,400}})?(?: traceparent=[0-9a-f-]{{55}})?\]"
)
"""The group, for Python's ``re`` and Arrow's RE2."""
SAMPLE_RATE_GROUP: Final = r"\[sampleRate=[0-9.e+-]{1,20}\]"
is_sampled: Final = re.compile(
    rb' \[sampleRate=[^\]]{1,20}\](?:\r*$|(?:\\+[nr])*\\*")|"sample_rate\\*":(?!1(?:\.0)?[,}])'
).search
"""Matches this daemon's sampled lines, in Kafka's format and in JSON, also inside a wrapper."""
_LOGGER: Final = f"({LOGGER_NAME})"
_MARKER: Final = f"{_LOGGER} [knownBy="
_ending: Final = re.compile(rf"( {CALLER_GROUP})(?: {SAMPLE_RATE_GROUP})?[\r\n]*")
_caller: Final = re.compile(r" \[knownBy=([A-Za-z]+)(?: caller=(\S*))? address=")
_plain: Final = re.compile(r"[!-$&-Z^-~]+")
_SAFE: Final = "".join(map(chr, range(0x21, 0x7F))).translate(dict.fromkeys(map(ord, "%[]\\")))


class AuditedCaller(msgspec.Struct, frozen=True, gc=False):
    """The caller that asked for a decision.

    ``known_by`` says how the daemon knows the principal: ``token``, ``certificate`` or ``trusted``
    at a decision port, else a value of ``Authentication``. ``principal`` is None for a trusted
    caller. ``address`` is an IP address, or ``UNIX_ADDRESS``. The last two come from the request's
    headers; None if missing or malformed.
    """

    known_by: str
    principal: str | None
    address: str
    request_id: str | None = None
    traceparent: str | None = None


class Requester(Protocol):
    """The sender of a request. The details are read only if an audit line is written."""

    def audited(self) -> AuditedCaller:
        """Return the part of an audit line that describes the caller."""


def read_request_id(value: bytes | None) -> str | None:
    """Return the ``X-Request-ID`` if it is up to 128 visible ASCII characters, else None.

    A repeated header has a blank after the comma that joins its values, so it is left out.
    """
    return value.decode() if value is not None and _REQUEST_ID.fullmatch(value) else None


def read_traceparent(value: bytes | None) -> str | None:
    """Return the ``traceparent`` if it has the form of version 00, else None."""
    return value.decode() if value is not None and _TRACEPARENT.fullmatch(value) else None


def format_caller(caller: AuditedCaller) -> str:
    """Return the group, for a line in Kafka's format."""
    group = f"[knownBy={caller.known_by}"
    if caller.principal is not None:
        group = f"{group} caller={encode_name(caller.principal)}"
    group = f"{group} address={encode_name(caller.address)}"
    if caller.request_id is not None:
        group = f"{group} requestId={encode_name(caller.request_id)}"
    if caller.traceparent is not None:
        group = f"{group} traceparent={caller.traceparent}"
    return f"{group}]"


def remove_caller(line: str) -> tuple[str, bool] | None:
    """Return a line in Kafka's format without its caller, and True if it had one.

    Return None if a name in it may imitate a caller.
    """
    if _MARKER not in line:
        return line, False
    found = _find_group(line)
    return None if found is None else (line[: found.start()] + line[found.end(1) :], True)


def read_caller(line: str) -> tuple[str | None, str | None]:
    """Return ``known_by`` and ``principal`` of a line's caller; None for what the line lacks.

    A caller that a name may imitate does not count.
    """
    group = _find_group(line)
    found = None if group is None else _caller.match(line, group.start())
    if found is None:
        return None, None
    return found[1], None if found[2] is None else unquote(found[2])


def _find_group(line: str) -> re.Match[str] | None:
    """Return the match of ``_ending`` if the line has one beginning of a group."""
    if line.count(_MARKER) != 1:
        return None
    return _ending.fullmatch(line, line.index(_MARKER) + len(_LOGGER))


def encode_name(text: str) -> str:
    """Percent-encode ``%``, brackets, the backslash, and all that is not visible ASCII."""
    if _plain.fullmatch(text):
        return text
    return quote(text, safe=_SAFE, errors="surrogatepass")
