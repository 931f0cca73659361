"""The copy of a daemon's ACLs, and until when it may decide. Nothing here has a clock or a socket.

**Invariant:** the copy decides for some time after a question to the daemon was *sent*, if the
answer names the version of the ACLs that the copy has, or has left for a later one. A change from
before that answer ends this. So neither delays, nor changes that undo each other, nor a daemon with
another log, can make an old copy look current.
"""

from __future__ import annotations

import math
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections import OrderedDict
from itertools import count
from typing import Final, NamedTuple, assert_never

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


class View(NamedTuple):
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
        self._snapshot: AclSnapshot | None = None
        self._state: DaemonState | None = None
        self._deadline = -math.inf
        self._accepts_after = -math.inf
        self._newest: tuple[DaemonState, float] | None = None
        self._proved_offset = -math.inf
        self._left: OrderedDict[bytes, tuple[float, int]] = OrderedDict()
        self._unknown_codes: Final = count(_FIRST_UNKNOWN_CODE)

    def apply(self, event: AclEvent, now: float) -> None:
        """Apply an event of a watch.

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
        """Decide no more until the next listing and an answer that proves it."""
        self._snapshot, self._state, self._deadline, self.view = None, None, -math.inf, None
        self._left.clear()
        self._proved_offset = -math.inf

    def note_state(self, state: DaemonState, asked_at: float) -> None:
        """Note an answer to a question that was sent at ``asked_at``."""
        self._newest = state, asked_at
        self._confirm()

    def _apply(self, event: AclEvent, now: float) -> None:
        match event:
            case Listing(offset, acls):
                self.forget()
                self._accepts_after = -math.inf
                added = [AclAdded(_read_id(each), self._read(acl)) for each, acl in acls.items()]
                self._snapshot = build(added, offset)
            case Changes(offset, changes):
                before = self._snapshot
                if before is None:
                    raise ValueError("there is no listing before it")
                read = [
                    AclAdded(_read_id(each.id), self._read(each.acl))
                    if each.is_added
                    else AclRemoved(_read_id(each.id))
                    for each in changes
                ]
                self._snapshot = at_offset(apply_changes(before, read), offset)
                self._leave(before.version, now, offset)
                if offset <= self._proved_offset:
                    self._deadline = -math.inf
            case Suspended():
                self._deadline, self._accepts_after = -math.inf, math.inf
            case Resumed():
                self._accepts_after = now
            case _:
                assert_never(event)

    def _leave(self, version: bytes, now: float, offset: int) -> None:
        """Remember when this version was left, and forget those that were left long ago.

        Args:
            offset: that of the change after which the copy had another version.
        """
        self._left[version] = now, offset
        self._left.move_to_end(version)
        while next(iter(self._left.values()))[0] < now - self._stale_seconds:
            self._left.popitem(last=False)

    def _confirm(self) -> None:
        """Use the newest answer if it is about this copy, and publish the view."""
        snapshot = self._snapshot
        if snapshot is None:
            return
        if self._newest is not None:
            answer, asked_at = self._newest
            proved_at = -math.inf
            left_at, left_offset = self._left.get(answer.version, (-math.inf, -1))
            if answer.version == snapshot.version:
                proved_at = asked_at
            elif left_offset > answer.offset:  # a change has overtaken the answer
                proved_at = min(asked_at, left_at)
            if proved_at > -math.inf and asked_at > self._accepts_after:
                self._state, self._newest = answer, None
                self._proved_offset = answer.offset
                valid = self._stale_seconds
                if answer.valid_seconds is not None:
                    valid = min(valid, answer.valid_seconds)
                self._deadline = proved_at + valid
        state = self._state
        if state is not None:
            self.view = View(with_rules(snapshot, state.rules), state.settings, self._deadline)

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
    """Return a uuid that is written as Kafka does. Raises ValueError if it is none."""
    try:
        uuid = urlsafe_b64decode(f"{text}==")
    except Base64Error:
        uuid = b""
    if len(uuid) != _ID_BYTES:
        raise ValueError(f"{text!r} is no id of an ACL")
    return uuid
