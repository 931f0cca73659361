"""The copy of a daemon's ACLs, and until when it may decide. Nothing here has a clock or a socket.

**Invariant:** what decides is one state of the daemon: the ACLs and the settings that one answer of
``/v1/state`` named, for some time after the question was *sent*. So neither delays nor a daemon
with another log can make an old copy look current, and new ACLs never meet old settings.
"""

from __future__ import annotations

import math
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections import OrderedDict
from itertools import count
from typing import Final, assert_never

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import (
    Acl,
    AclAdded,
    AclRemoved,
    Code,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.snapshot import AclSnapshot, apply_changes, at_offset, with_rules
from authorizerd.image.errors import ChangeError
from authorizerd_client.errors import ProtocolError
from authorizerd_client.mirror.state import DaemonState
from authorizerd_client.watch_values import Acl as ListedAcl
from authorizerd_client.watch_values import AclEvent, Changes, Listing, Resumed, Suspended

_UNKNOWN: Final = "UNKNOWN"
_FIRST_UNKNOWN_CODE: Final = 1000
_ID_BYTES: Final = 16
VERSIONS_MAX: Final = 1_000
"""They share what is unchanged. The oldest are left out: an answer about a later one will do."""


class View(msgspec.Struct, frozen=True, gc=False):
    """A state that decides until ``deadline``, in seconds of the copy's clock."""

    snapshot: AclSnapshot
    settings: AuthorizerSettings
    deadline: float


class Copy:
    """A copy. Give it every event of a watch, and every answer of ``/v1/state``.

    Attributes:
        view: what decides now; None while nothing may.
    """

    def __init__(self, stale_seconds: float) -> None:
        self.view: View | None = None
        self._stale_seconds: Final = stale_seconds
        self._versions: OrderedDict[bytes, AclSnapshot] = OrderedDict()
        self._answer: tuple[DaemonState, float] | None = None
        self._accepts_after = -math.inf
        self._unknown_codes: Final = count(_FIRST_UNKNOWN_CODE)

    @property
    def is_behind(self) -> bool:
        """True if no answer has named the newest ACLs yet."""
        return len(self._versions) > 1 or (self.view is None and bool(self._versions))

    def apply(self, event: AclEvent, now: float) -> None:
        """Apply an event of a watch. New ACLs decide once an answer names them.

        Raises:
            ProtocolError: it contradicts the copy, which decides no more until the next listing.
        """
        try:
            self._apply(event, now)
        except (ChangeError, ValueError) as error:
            self.forget()
            raise ProtocolError(f"a change contradicts the copy: {error}") from error
        self._confirm()

    def forget(self) -> None:
        """Decide no more until the next listing and an answer that names it."""
        self._versions.clear()
        self._answer = self.view = None

    def note_state(self, state: DaemonState, asked_at: float) -> None:
        """Note an answer to a question that was sent at ``asked_at``."""
        self._answer = state, asked_at
        self._confirm()

    def _apply(self, event: AclEvent, now: float) -> None:
        match event:
            case Listing(offset, acls):
                added = [AclAdded(_read_id(each), self._read(acl)) for each, acl in acls.items()]
                self._versions.clear()
                self._add(build(added, offset))
                self._accepts_after = -math.inf
            case Changes(offset, changes):
                if not self._versions:
                    raise ValueError("there is no listing before it")
                read = [
                    AclAdded(_read_id(each.id), self._read(each.acl))
                    if each.is_added
                    else AclRemoved(_read_id(each.id))
                    for each in changes
                ]
                newest = self._versions[next(reversed(self._versions))]
                self._add(at_offset(apply_changes(newest, read), offset))
            case Suspended():
                self._answer = self.view = None
                self._accepts_after = math.inf
            case Resumed():
                self._accepts_after = now
            case _:
                assert_never(event)

    def _add(self, snapshot: AclSnapshot) -> None:
        """Keep the newest ACLs, and those before that an answer may still name."""
        version = snapshot.version
        self._versions[version] = snapshot
        self._versions.move_to_end(version)
        if len(self._versions) > VERSIONS_MAX:
            self._versions.popitem(last=False)

    def _confirm(self) -> None:
        """Publish the state that the newest answer names, if it has arrived."""
        if self._answer is None:
            return
        state, asked_at = self._answer
        snapshot = self._versions.get(state.version)
        if snapshot is None or asked_at <= self._accepts_after:
            return
        self._answer = None
        while next(iter(self._versions)) != state.version:
            self._versions.popitem(last=False)
        valid = self._stale_seconds
        if state.valid_seconds is not None:
            valid = min(valid, state.valid_seconds)
        self.view = View(with_rules(snapshot, state.rules), state.settings, asked_at + valid)

    def _read(self, acl: ListedAcl) -> Acl:
        return Acl(
            self._read_code(ResourceType, acl.resource_type),
            acl.resource_name,
            self._read_code(PatternType, acl.pattern_type),
            acl.principal,
            acl.host,
            self._read_code(Operation, acl.operation),
            self._read_code(PermissionType, acl.permission_type),
        )

    def _read_code(self, codes: type[Code], name: str) -> int:
        """Return a code by its name. Each unknown one differs, as ACLs with it may."""
        if name == _UNKNOWN:
            return next(self._unknown_codes)
        code = codes.named(name)
        if code is None:
            raise ValueError(f"unknown {codes.__name__} {name!r}")
        return code


def _read_id(text: str) -> bytes:
    """Return a uuid from Kafka's text of it. Raises ValueError for any other text."""
    try:
        uuid = urlsafe_b64decode(f"{text}==")
    except Base64Error:
        uuid = b""
    if len(uuid) != _ID_BYTES:
        raise ValueError(f"{text!r} is not the id of an ACL")
    return uuid
