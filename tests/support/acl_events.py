"""A client of ``/v1/acls`` and ``/v1/watch`` without a connection: it keeps a copy of the ACLs."""

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import Any

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.acl.snapshot import AclSnapshot

Copy = dict[str, dict[str, str]]
"""The JSON of each ACL by its id."""


@dataclass
class Event:
    """One server-sent event. ``id`` is the client's place after it."""

    name: str
    data: Any
    id: str


class EventReader:
    """Read server-sent events as a browser does (WHATWG HTML, section 9.2.6)."""

    def __init__(self, last_id: str = "") -> None:
        self._unread = b""
        self._fields: list[tuple[str, str]] = []
        self.last_id = last_id
        self.comments: list[str] = []

    def receive(self, data: bytes) -> list[Event]:
        """Add bytes; return the events that they complete."""
        *lines, self._unread = (self._unread + data).split(b"\n")
        found = [self._read(line.decode()) for line in lines]
        return [event for event in found if event is not None]

    def _read(self, line: str) -> Event | None:
        if line.startswith(":"):
            self.comments.append(line[1:].strip())
            return None
        if line:
            name, _, value = line.partition(":")
            self._fields.append((name, value.removeprefix(" ")))
            return None
        fields, self._fields = self._fields, []
        values = dict(fields)
        self.last_id = values.get("id", self.last_id)
        if "data" not in values:
            return None
        return Event(values.get("event", "message"), json.loads(values["data"]), self.last_id)


class AclCopy:
    """The ACLs as a client knows them.

    **Invariant:** a change fits the copy: an added ACL is new, and a removed one was there. So a
    change that is missing, repeated or out of order fails the test.
    """

    def __init__(self) -> None:
        self.acls: Copy = {}
        self.offset = -1
        self._parts: list[dict[str, Any]] = []

    def begin_with(self, listing: bytes) -> None:
        """Replace the copy by a complete listing."""
        first, *lines, last = map(json.loads, listing.decode().splitlines())
        self.acls = {line["id"]: line["acl"] for line in lines}
        assert len(self.acls) == len(lines) == last["count"]
        self.offset = first["offset"]
        self._parts.clear()

    def lose_connection(self) -> None:
        """Forget the parts of an incomplete batch."""
        self._parts.clear()

    def apply(self, event: Event) -> None:
        """Apply an event of changes, once its batch is complete."""
        assert event.name == "acls", event
        assert event.data["offset"] > self.offset
        self._parts += event.data["changes"]
        if event.data["more"]:
            assert event.id != str(event.data["offset"]), "a client would resume too late"
            return
        assert event.id == str(event.data["offset"])
        for change in self._parts:
            if change["change"] == "add":
                assert change["id"] not in self.acls
                self.acls[change["id"]] = change["acl"]
            else:
                assert change["change"] == "remove"
                assert self.acls.pop(change["id"]) == change["acl"]
        self._parts.clear()
        self.offset = event.data["offset"]


def shown(acl: Acl) -> dict[str, str]:
    """Return an ACL as the daemon shows it."""
    return {
        "resource_type": ResourceType.read(acl.resource_type).name,
        "resource_name": acl.resource_name,
        "pattern_type": PatternType.read(acl.pattern_type).name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": Operation.read(acl.operation).name,
        "permission_type": PermissionType.read(acl.permission_type).name,
    }


def shown_id(id: bytes) -> str:
    """Return a uuid as Kafka's tools show it."""
    return urlsafe_b64encode(id).decode().rstrip("=")


def copy_of(snapshot: AclSnapshot | None) -> Copy:
    """Return the copy that a client of this state should have."""
    assert snapshot is not None
    return {shown_id(acl_id): shown(acl) for acl_id, acl in snapshot.acls.items()}
