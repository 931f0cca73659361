"""What moves between two places, and what every place can do.

**Invariant:** a target writes nothing before it has told what it cannot hold. An ACL that is not
written is a named loss, or it was there before.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from authorizerd.acl.formats.model import Loss
from authorizerd.acl.model import Acl
from authorizerd.acl.snapshot import is_grant


class AclsFound(msgspec.Struct, frozen=True):
    """The contents of a source.

    Attributes:
        acls: each binding once.
        ids: the ids of a log, by binding. Other sources have none.
        losses: what the source says and ACLs cannot.
    """

    acls: tuple[Acl, ...]
    ids: Mapping[Acl, bytes] = {}
    losses: tuple[Loss, ...] = ()


def leave_out_lost(found: AclsFound) -> AclsFound:
    """Return what was found, without the ACLs that are losses of the reading.

    A format reads a code that it does not know as UNKNOWN. The ACL that it stands for is another
    one, so this one must not be written.
    """
    lost = {loss.acl for loss in found.losses}
    return msgspec.structs.replace(found, acls=tuple(acl for acl in found.acls if acl not in lost))


class Draft(msgspec.Struct, frozen=True):
    """The contents that a target would write.

    Attributes:
        new: the ACLs to write, DENYs first.
        present: how many ACLs of the source are there already.
        losses: the ACLs of the source that the target cannot hold, and why.
    """

    new: tuple[Acl, ...]
    present: int = 0
    losses: tuple[Loss, ...] = ()


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a target.

    Attributes:
        count: how many ACLs were certainly written.
        notes: what else a person may want to know, as sentences.
        requests: the requests that a cluster has acknowledged.
        offset: the last log offset, if the target is a log.
        cluster_id: the id of a new log directory.
        failure: why not all is written; empty if all is.
    """

    count: int
    notes: tuple[str, ...] = ()
    requests: int | None = None
    offset: int | None = None
    cluster_id: str | None = None
    failure: str = ""


class Source(Protocol):
    """A place to read ACLs from. ``name`` is as the user wrote it."""

    @property
    def name(self) -> str: ...

    def read(self) -> AclsFound:
        """Return all ACLs. Blocks.

        Raises:
            StartError, MetadataLogError: they cannot be read.
        """
        ...


class OpenTarget(Protocol):
    """A target while nobody else may write to it, as far as it can be locked.

    Both methods block, and raise StartError or MetadataLogError.
    """

    def draft(self, found: AclsFound) -> Draft:
        """Return what would be written. Nothing is changed."""
        ...

    def write(self, draft: Draft, found: AclsFound) -> Written:
        """Write ``draft``."""
        ...


class Target(Protocol):
    """A place to write ACLs to.

    Attributes:
        kind: what it is, for people: ``yaml file``, ``log directory``, ``cluster``.
        is_complete: True if it has exactly these ACLs afterwards; False if others stay.
        is_standard_output: True if standard output gets the ACLs.
    """

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def is_complete(self) -> bool: ...

    @property
    def is_standard_output(self) -> bool: ...

    def open(self) -> AbstractContextManager[OpenTarget]:
        """Return the open target. Nothing is created or changed, except a lock's file.

        Raises:
            StartError, MetadataLogError: it cannot be written to.
        """
        ...


def order_for_writing(acls: tuple[Acl, ...]) -> tuple[Acl, ...]:
    """Return the ACLs with all that deny first, otherwise in their order."""
    return tuple(sorted(acls, key=is_grant))
