"""The contents moved between two places, the interface of places, and their notation.

    kafka://HOST:PORT,HOST:PORT      a cluster, or a daemon
    zookeeper://HOST:PORT/chroot     a ZooKeeper ensemble
    log:DIR, DIR/, DIR               a log directory
    FILE.checkpoint                  a checkpoint of a log
    FORMAT:FILE, FILE.yaml, FILE     a file of ACLs
    FORMAT:-, -                      standard input or standard output

**Invariant:** a locator has one meaning, whatever exists on disk, except that an existing directory
is a log directory. A target reports what it cannot hold before it writes anything. An ACL that is
not written is a reported loss, or was already there. A log cannot hold names that no Kafka client
could list. A cluster also cannot hold ACLs that its controller rejects. A file's limits depend on
its format.

Source: Kafka 4.3 AclApis.handleCreateAcls, AclControlManager.validateNewAcl; the string type of
Kafka's protocol.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

import msgspec

from authorizerd.acl.grants.reading import follow_note
from authorizerd.acl.model import Acl
from authorizerd.acl.snapshot import is_grant
from authorizerd.acl.validation import find_creation_fault
from authorizerd.cli.flags import Refuse
from authorizerd.cli.zookeeper.options import WriteOptions
from authorizerd.management.formats.model import Loss
from authorizerd.management.formats.values import keep_writable
from authorizerd.management.groups.claims import is_made_note, move_claims
from authorizerd.management.plan.grants import settle_grants
from authorizerd.management.plan.selector import Selector

STANDARD: Final = "-"
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://(.*)", re.DOTALL)
_ONE_SLASH: Final = re.compile(r"(kafka|zookeeper):/?[^/]*:[0-9]", re.IGNORECASE)
_CHECKPOINT: Final = "checkpoint"
_LOG: Final = "log"


class Kind(StrEnum):
    """The kind of a place."""

    CLUSTER = "cluster"
    ZOOKEEPER = "zookeeper"
    LOG = "log"
    CHECKPOINT = "checkpoint"
    FILE = "file"


class LocatorError(ValueError):
    """A text does not name a place; the error says what was expected."""


class Locator(msgspec.Struct, frozen=True):
    """A place.

    Attributes:
        text: the text as the user wrote it.
        value: the addresses of a cluster or of ZooKeeper, else the path; ``-`` is standard input or
            standard output.
        format: the name of the file's format; None if it is not stated.
    """

    kind: Kind
    text: str
    value: str
    format: str | None = None

    @property
    def path(self) -> Path:
        return Path(self.value)

    @property
    def is_standard(self) -> bool:
        return self.kind is Kind.FILE and self.value == STANDARD


def parse_locator(text: str, formats: Collection[str]) -> Locator:
    """Return the place that ``text`` names."""
    if not text:
        raise LocatorError("expected a place, found an empty text")
    if match := _SCHEME.fullmatch(text):
        return _parse_url(text, match[1].lower(), match[2])
    if match := _ONE_SLASH.match(text):
        scheme = match[1].lower()
        raise LocatorError(
            f"expected {scheme}://HOST:PORT, with two slashes; for a file, write ./ before its name"
        )
    prefix, colon, rest = text.partition(":")
    if colon and prefix in (*formats, _LOG, _CHECKPOINT):
        return _parse_prefixed(text, prefix, rest)
    path = Path(text)
    if text.endswith("/") or (text != STANDARD and path.is_dir()):
        return Locator(Kind.LOG, text, text)
    if path.name.endswith(f".{_CHECKPOINT}"):
        return Locator(Kind.CHECKPOINT, text, text)
    return Locator(Kind.FILE, text, text)


def _parse_url(text: str, scheme: str, rest: str) -> Locator:
    kinds = {"kafka": Kind.CLUSTER, "zookeeper": Kind.ZOOKEEPER}
    if scheme not in kinds:
        raise LocatorError(
            f"unknown scheme {scheme!r}: expected kafka://HOST:PORT, zookeeper://HOST:PORT/chroot, "
            "a path, or FORMAT:FILE"
        )
    if kinds[scheme] is Kind.CLUSTER:
        rest = rest.removesuffix("/")
    if not rest:
        raise LocatorError(f"expected HOST:PORT after {scheme}://")
    if kinds[scheme] is Kind.CLUSTER and set(rest) & {"/", "@", "?"}:
        raise LocatorError(
            "expected kafka://HOST:PORT, with several separated by commas; credentials and TLS "
            "settings belong in the file of --command-config"
        )
    return Locator(kinds[scheme], text, rest)


def _parse_prefixed(text: str, prefix: str, rest: str) -> Locator:
    if not rest:
        raise LocatorError(f"expected a path after {prefix}:")
    if prefix == _LOG:
        return Locator(Kind.LOG, text, rest)
    if prefix == _CHECKPOINT:
        return Locator(Kind.CHECKPOINT, text, rest)
    return Locator(Kind.FILE, text, rest, prefix)


TEXT_BYTES_MAX: Final = 32_767
"""The longest string in a request or response: its length is an int16."""


class Side(msgspec.Struct, frozen=True):
    """One of the two places.

    Attributes:
        command_config: the file with the settings of a client, for a cluster.
        server_config, overrides: the configuration that names the log directory, or None.
    """

    locator: Locator
    command_config: str | None = None
    server_config: Path | None = None
    overrides: tuple[str, ...] = ()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a user.

    Attributes:
        format: the format of the file: in an export, of the target; in an import, of the source.
        selects: whether an ACL is selected; None if all are. zookeeper: the user's options for a
            target in ZooKeeper.
    """

    source: Side
    target: Side
    is_export: bool
    format: str | None
    as_of: str | None
    node_id: int | None
    cluster_id: str | None
    overwrite: bool
    accept_losses: bool
    dry_run: bool
    json: bool
    selects: Callable[[Acl], bool] | None
    zookeeper: WriteOptions
    refuse: Refuse


class AclsFound(msgspec.Struct, frozen=True):
    """The contents of a source.

    Attributes:
        acls: each binding once.
        ids: the ids of a log, by binding. Other sources have none.
        losses: parts of the source that ACLs cannot express.
    """

    acls: tuple[Acl, ...]
    ids: Mapping[Acl, bytes] = {}
    losses: tuple[Loss, ...] = ()


def leave_out_lost(found: AclsFound) -> AclsFound:
    """Return the contents without the ACLs that were lost in reading.

    A format reads an unknown code as UNKNOWN. The real ACL is different, so this one must not be
    written.
    """
    lost = {loss.acl for loss in found.losses}
    return msgspec.structs.replace(found, acls=tuple(acl for acl in found.acls if acl not in lost))


class Draft(msgspec.Struct, frozen=True):
    """The changes that a target would make.

    Attributes:
        new: the ACLs to write, DENYs first.
        present: the number of the source's ACLs that are already there.
        losses: the ACLs of the source that the target cannot hold, and why.
        notes: sentences about grants that are not written.
    """

    new: tuple[Acl, ...]
    present: int = 0
    losses: tuple[Loss, ...] = ()
    notes: tuple[str, ...] = ()


def draft_missing(
    found: AclsFound, present: Collection[Acl], find_fault: Callable[[Acl], str | None]
) -> Draft:
    """Return how to add the ACLs of a source to a cluster or a log that has ``present``.

    Grants are added as a plan would add them: see ``management.plan.grants``. Of what groups made,
    only added ACLs are claimed: the others may have been made by hand here.

    Raises:
        PlanError: a note of the source cannot be read.
    """
    there = frozenset(present)
    acls = [acl for acl in found.acls if not is_made_note(acl)]
    settled = settle_grants(there, acls, Selector(None), time.time_ns() // 1_000_000)
    missing = [acl for acl in settled.desired if acl not in there]
    missing += (note for note in move_claims(found.acls, missing) if note not in there)
    kept, losses = keep_writable(missing, find_fault)
    count = sum(acl in there or follow_note(acl) in there for acl in found.acls)
    return Draft(order_for_writing(tuple(kept)), count, losses, settled.left_out)


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a target.

    Attributes:
        count: the number of ACLs that were definitely written.
        notes: sentences with further information for people.
        requests: the number of requests that a cluster acknowledged.
        offset: the last log offset, if the target is a log.
        cluster_id: the id of a new log directory.
        failure: why not everything was written; empty if it was.
    """

    count: int
    notes: tuple[str, ...] = ()
    requests: int | None = None
    offset: int | None = None
    cluster_id: str | None = None
    failure: str = ""


class Source(Protocol):
    """A place to read ACLs from. ``name`` is as the user wrote it."""

    name: str

    def read(self) -> AclsFound:
        """Return all ACLs. Blocks."""
        ...


class OpenTarget(Protocol):
    """A target that is locked against other writers, as far as that is possible.

    Both methods block, and raise CommandError or MetadataLogError.
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
        is_complete: True if it has exactly these ACLs afterwards; False if others are kept.
        is_standard_output: True if standard output gets the ACLs.
    """

    name: str
    kind: str
    is_complete: bool
    is_standard_output: bool

    def open(self) -> AbstractContextManager[OpenTarget]:
        """Return the open target. Nothing is created or changed, except a lock file."""
        ...


def order_for_writing(acls: tuple[Acl, ...]) -> tuple[Acl, ...]:
    """Return the ACLs with all denials first, otherwise in their order."""
    return tuple(sorted(acls, key=is_grant))


def find_log_fault(acl: Acl) -> str | None:
    """Return why a log cannot hold an ACL. It holds unknown codes, which clients see as UNKNOWN."""
    texts = {"name": acl.resource_name, "principal": acl.principal, "host": acl.host}
    for what, text in texts.items():
        if len(text) * 4 > TEXT_BYTES_MAX and len(text.encode()) > TEXT_BYTES_MAX:
            return f"the {what} is longer than {TEXT_BYTES_MAX} bytes, so no client could list it"
    return None


def find_cluster_fault(acl: Acl) -> str | None:
    fault = find_creation_fault(acl)
    return find_log_fault(acl) if fault is None else f"a cluster rejects it: {fault}"
