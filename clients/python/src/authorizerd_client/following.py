"""Follow the ACLs of a daemon, without a socket: requests to send, and events from the answers.

**Invariant:** wherever a connection breaks, the events lead from one state of the ACLs to the next:
each change occurs once, in order, and batches are whole. If that is impossible, the events begin
again with a ``Listing``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from authorizerd_client.errors import (
    AuthorizerdError,
    ConnectionLostError,
    ForbiddenError,
    InvalidRequestError,
    OverloadedError,
    ProtocolError,
    TimedOutError,
    TokenRefusedError,
)
from authorizerd_client.http_answer import HttpAnswer
from authorizerd_client.values import Address
from authorizerd_client.watch_values import (
    Acl,
    AclChange,
    AclEvent,
    Changes,
    Listing,
    Resumed,
    Suspended,
)

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
RETRY_SECONDS: Final = 1.0
_OK, _GONE, _UNAVAILABLE = 200, 410, 503
_TEXT_BYTES_MAX: Final = 64 * 1024
_OFFSET: Final = re.compile(r"-?[0-9]{1,19}")


class Follower:
    """The state of one watch. Call ``begin`` for each connection; it has one answer.

    Attributes:
        needs_connection: True if the answer is complete, and the next request needs a connection.
    """

    def __init__(self, token: str | None) -> None:
        self._token: Final = token
        self._offset: int | None = None
        self._answer = HttpAnswer()
        self._lines = bytearray()
        self._text = bytearray()
        self._listed: dict[str, Acl] = {}
        self._listed_offset: int | None = None
        self._fields: dict[str, str] = {}
        self._changes: list[AclChange] = []
        self._is_listing = True
        self._is_suspended = False
        self.needs_connection = True

    @property
    def is_answered(self) -> bool:
        """Return True once the head of the answer has arrived."""
        return self._answer.status != 0

    def forget(self) -> None:
        """List the ACLs again: the next daemon may have different offsets."""
        self._offset = None

    def begin(self, address: Address) -> bytes:
        """Return the request to send on a new connection."""
        self._answer = HttpAnswer()
        self._lines.clear()
        self._text.clear()
        self._listed, self._listed_offset = {}, None
        self._fields, self._changes = {}, []
        self._is_listing = self._offset is None
        self.needs_connection = False
        path = "/v1/acls" if self._is_listing else f"/v1/watch?after={self._offset}"
        host = f"[{address.host}]" if ":" in address.host else address.host
        token = "" if self._token is None else f"Authorization: Bearer {self._token}\r\n"
        return (
            f"GET {path} HTTP/1.1\r\nHost: {host}:{address.port}\r\n"
            f"Connection: close\r\n{token}\r\n"
        ).encode()

    def receive_data(self, data: bytes) -> list[AclEvent]:
        """Add bytes of the answer; return the events that they complete.

        Args:
            data: empty if the daemon has closed the connection.

        Raises:
            ConnectionLostError, OverloadedError: connect again, later.
            TokenRefusedError, ForbiddenError, InvalidRequestError, ProtocolError: the watch
                cannot go on.
        """
        if not data:
            raise ConnectionLostError("the daemon closed the connection")
        body = self._answer.receive_data(data)
        if not self._answer.status:
            return []
        if self._answer.status != _OK:
            self._read_refusal(body)
            return []
        read = self._read_listed if self._is_listing else self._read_field
        try:
            events = [event for line in self._split(body) for event in read(line)]
        except ProtocolError:
            self._offset = None  # the events before the fault are lost
            raise
        if self._answer.is_complete and not self.needs_connection:
            if self._is_listing:
                raise ConnectionLostError("the listing is incomplete")
            self.needs_connection = True  # the daemon drains: resume
        return events

    def _split(self, body: bytes) -> Iterator[str]:
        self._lines += body
        *lines, rest = self._lines.split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise ProtocolError(f"expected lines of at most {LINE_BYTES_MAX} bytes")
        self._lines = rest
        for line in lines:
            try:
                yield line.decode()
            except UnicodeDecodeError:
                raise _unexpected() from None

    def _read_listed(self, line: str) -> Iterator[AclEvent]:
        found = _parse(line)
        if self._listed_offset is None:
            self._listed_offset = _int_in(found, "offset")
        elif "count" in found:
            if found["count"] != len(self._listed):
                raise _unexpected()
            self._offset = self._listed_offset
            self.needs_connection, self._is_suspended = True, False
            yield Listing(self._offset, self._listed)
        else:
            self._listed[_text_in(found, "id")] = _acl_in(found)

    def _read_field(self, line: str) -> Iterator[AclEvent]:
        """Read a line of an event stream; an empty line completes an event."""
        if self.needs_connection or line.startswith(":"):
            return
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")
            return
        fields, self._fields = self._fields, {}
        if "data" in fields:
            yield from self._read_event(fields.get("event", ""), _parse(fields["data"]))
        if "id" in fields:
            if not _OFFSET.fullmatch(fields["id"]):
                raise _unexpected()
            self._offset = int(fields["id"])

    def _read_event(self, name: str, data: dict[str, Any]) -> Iterator[AclEvent]:
        match name:
            case "acls":
                yield from self._read_changes(data)
            case "suspended":
                yield Suspended(_text_in(data, "reason"))
                self._is_suspended = True
            case "begin" | "resumed":  # a daemon that does not decide begins no watch
                if self._is_suspended:
                    yield Resumed()
                self._is_suspended = False
            case "expired":
                self._offset = None
                self.needs_connection = True
            case "closed":  # the answer to the next request shows whether the watch can continue
                self.needs_connection = True
            case _:  # events of later versions
                pass

    def _read_changes(self, data: dict[str, Any]) -> Iterator[AclEvent]:
        listed = data.get("changes")
        if not isinstance(listed, list):
            raise _unexpected()
        self._changes += map(_read_change, listed)
        if data.get("more") is False:
            changes, self._changes = tuple(self._changes), []
            yield Changes(_int_in(data, "offset"), changes)

    def _read_refusal(self, body: bytes) -> None:
        self._text += body[: _TEXT_BYTES_MAX - len(self._text)]
        if not self._answer.is_complete:
            return
        self.needs_connection = True
        if self._answer.status == _GONE and not self._is_listing:
            self._offset = None
            return
        raise _new_error(self._answer.status, self._text.decode(errors="replace").strip())


def _new_error(status: int, text: str) -> AuthorizerdError:
    match status:
        case 400:
            return InvalidRequestError(text, status)
        case 401:
            return TokenRefusedError(text, status)
        case 403:
            return ForbiddenError(text, status)
        case 503:
            return OverloadedError(text, status, RETRY_SECONDS)
        case _:
            return ProtocolError(f"status {status}: {text[:200]}")


def _parse(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _unexpected() from None
    if not isinstance(found, dict):
        raise _unexpected()
    return found


def _read_change(change: Any) -> AclChange:  # noqa: ANN401 - a part of any JSON
    if not isinstance(change, dict) or change.get("change") not in ("add", "remove"):
        raise _unexpected()
    return AclChange(change["change"] == "add", _text_in(change, "id"), _acl_in(change))


def _acl_in(found: dict[str, Any]) -> Acl:
    acl = found.get("acl")
    if not isinstance(acl, dict):
        raise _unexpected()
    return Acl(*(_text_in(acl, name) for name in Acl._fields))


def _text_in(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise _unexpected()
    return value


def _int_in(found: dict[str, Any], name: str) -> int:
    value = found.get(name)
    if not isinstance(value, int):
        raise _unexpected()
    return value


def _unexpected() -> ProtocolError:
    return ProtocolError("the daemon sent something other than a listing or events of ACLs")


def new_silence_error(follower: Follower, seconds: float) -> TimedOutError:
    """Return the error for a daemon that sent nothing, or no complete head of an answer."""
    did = "been silent" if follower.is_answered else "not answered"
    return TimedOutError(f"the daemon has {did} for {seconds:g} s")
