"""The sender of a request to a decision port, for the audit."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from authorizerd.acl.audit.caller import (
    UNIX_ADDRESS,
    AuditedCaller,
    read_request_id,
    read_traceparent,
)
from authorizerd.daemon.decisions.callers import Caller

REQUEST_ID: Final = b"x-request-id"
TRACEPARENT: Final = b"traceparent"
AUDITED_HEADERS: Final = (REQUEST_ID, TRACEPARENT)
_NO_HEADERS: Final[Mapping[bytes, bytes]] = MappingProxyType({})


class PortRequester(msgspec.Struct, gc=False):
    """A caller, its address (None: a Unix socket), and the headers of its request.

    Each request has one. Its facts are read only if a decision is audited, and only once for all
    lines.
    """

    caller: Caller
    address: str | None
    headers: Mapping[bytes, bytes] = _NO_HEADERS
    _audited: AuditedCaller | None = None

    @property
    def principal(self) -> str | None:
        """The caller's principal, or None if callers need no credentials."""
        return self.caller.principal

    def audited(self) -> AuditedCaller:
        """Return what an audit line says about the caller."""
        if self._audited is None:
            self._audited = self._read()
        return self._audited

    def _read(self) -> AuditedCaller:
        caller, headers = self.caller, self.headers
        return AuditedCaller(
            caller.known_by,
            caller.principal,
            UNIX_ADDRESS if self.address is None else self.address,
            read_request_id(headers.get(REQUEST_ID)),
            read_traceparent(headers.get(TRACEPARENT)),
        )
