"""Add ACLs to a cluster in ZooKeeper, as a broker does.

**Invariant:** nothing is removed. A pattern's ACLs and the change event are written together or not
at all, only if no other writer came in between, and only while no KRaft controller owns the
metadata. All DENYs are written before the first ALLOW. So a run that was interrupted can be
repeated: it writes what is missing.

Data and event share one transaction, whereas a broker writes them one after the other. If a
connection were lost in between, it would be unknown whether the event was written, and running
brokers would miss the change.

Source: Kafka 3.9 AclAuthorizer.updateResourceAcls, KafkaZkClient.createAclPaths and
tryRegisterKRaftControllerAsActiveController.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from authorizerd.acl.model import Acl
from authorizerd.acl.snapshot import is_grant
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.transfer.model import Draft, order_for_writing
from authorizerd.cli.zookeeper.errors import ZooKeeperError
from authorizerd.cli.zookeeper.options import (
    OLDEST_FLAG,
    OPEN_FLAG,
    HiddenOwnerError,
    OpenZnodeError,
    Permission,
    WriteOptions,
    choose_permissions,
)
from authorizerd.cli.zookeeper.reading import check_chroot, find_owner, read_patterns
from authorizerd.cli.zookeeper.session import Check, Create, Outcome, Session, SetData
from authorizerd.management.formats.model import Loss
from authorizerd.management.zookeeper.export import divide, find_oversized, list_parents
from authorizerd.management.zookeeper.ownership import CONTROLLER_EPOCH
from authorizerd.management.zookeeper.paths import LITERAL_ROOT, Pattern, pattern_path
from authorizerd.management.zookeeper.znode import ChangeEvent, new_change_event, write_acls

ATTEMPTS_MAX: Final = 10
"""Maximum attempts per pattern if other writers change it or connections break, as in Kafka."""
BACKOFF_SECONDS: Final = 0.1
_RACES: Final = f"other writers came in between, or the connection broke, {ATTEMPTS_MAX} times"
Guard = tuple[Check, ...]
Changes = tuple[SetData | Create, ...]


class Added(msgspec.Struct, frozen=True):
    """The result: the number of ACLs definitely present, and why not all are; empty if all are."""

    count: int
    patterns: int
    failure: str = ""


class AclWriter:
    """Adds ACLs through one session.

    Every method blocks, and raises ZooKeeperError.
    """

    def __init__(self, session: Session, options: WriteOptions) -> None:
        self._session = session
        self._options = options
        self._target = options.target
        self._new_znodes = NewZnodes(session, accepts_open=options.accepts_open)
        self._guard: Guard | None = None
        self._done = 0

    def find_missing(self, acls: Iterable[Acl]) -> Draft:
        """Return the ACLs to write, after all checks that do not write."""
        check_chroot(self._session)
        self._refresh_guard()
        export = divide(acls, self._target)
        patterns = list(export.patterns)
        changed: list[Pattern] = []
        new: list[Acl] = []
        losses = list(export.losses)
        present = 0
        for pattern, (_, found) in zip(
            patterns, read_patterns(self._session, patterns), strict=True
        ):
            there = frozenset(found)
            missing = [each for each in export.patterns[pattern] if each not in there]
            present += len(export.patterns[pattern]) - len(missing)
            oversized = find_oversized(pattern, (*found, *missing), self._target) if missing else ()
            if oversized:
                losses += [Loss(each, oversized[0].reason) for each in missing]
            elif missing:
                new += missing
                changed.append(pattern)
        self._check_parents(changed)
        return Draft(order_for_writing(tuple(new)), present, tuple(losses))

    def add_all(self, acls: Sequence[Acl]) -> Added:
        """Add ACLs that ``find_missing`` returned. Raises errors only before the first change."""
        self._create_parents()
        self._done, patterns = 0, 0
        for pattern, entries in _divide(acls):
            try:
                self._add(pattern, entries)
            except ZooKeeperError as error:
                return Added(self._done, patterns, f"{error}\n{self.describe_certain(len(acls))}")
            self._done += len(entries)
            patterns += 1
        return Added(self._done, patterns)

    def describe_certain(self, count: int) -> str:
        """Describe what is known about an interrupted ``add_all`` of ``count`` ACLs."""
        return (
            f"{self._done} of {count} ACLs were definitely written, each with its change event. "
            "Run the command again: it writes only what is missing"
        )

    def _add(self, pattern: Pattern, acls: Sequence[Acl]) -> None:
        path = pattern_path(pattern)
        event = new_change_event(pattern, self._target.oldest)

        def find_changes() -> Changes:
            ((znode, present),) = read_patterns(self._session, [pattern])
            merged = tuple(dict.fromkeys((*present, *acls)))
            if len(merged) == len(present):
                return ()
            if oversized := find_oversized(pattern, merged, self._target):
                raise self._new_error(path, oversized[0].reason)
            data = write_acls(merged)
            change: SetData | Create
            if znode is not None:
                change = SetData(path, data, znode.version)
            else:
                change = Create(path, data, self._new_znodes.choose(path))
            return (change, self._new_event(event))

        self._commit(path, find_changes)

    def _commit(self, path: str, find_changes: Callable[[], Changes]) -> None:
        """Retry the changes that ``find_changes`` returns, until they are made or none is left."""
        for attempt in range(ATTEMPTS_MAX):
            time.sleep(min(attempt, 1) * BACKOFF_SECONDS)
            guard = self._guard or self._refresh_guard()
            changes = find_changes()
            if not changes:
                return
            outcome = self._session.commit((*guard, *changes))
            if outcome is Outcome.DONE:
                return
            self._guard = None
            if outcome is Outcome.UNKNOWN:
                self._session.wait_for_connection()
        raise self._new_error(path, _RACES)

    def _new_event(self, event: ChangeEvent) -> Create:
        permissions = self._new_znodes.choose(event.path)
        return Create(event.path, event.data, permissions, is_sequential=True)

    def _refresh_guard(self) -> Guard:
        """Check that no KRaft controller owns the metadata; return an operation that fails once one
        does.

        A KRaft controller that takes over raises the epoch in the same transaction.
        """
        epoch = self._session.get(CONTROLLER_EPOCH)
        owner = find_owner(self._session)
        if owner is not None:
            raise ZooKeeperError(
                f"{self._session.name}: a KRaft controller owns this cluster's metadata: {owner}. "
                "Nothing was written, because it would be lost: import the ACLs into the cluster, "
                "with kafka://HOST:PORT"
            )
        guard = () if epoch is None else (Check(CONTROLLER_EPOCH, epoch.version),)
        # Without an epoch, there is nothing to check later, so check again before each change.
        self._guard = guard or None
        return guard

    def _check_parents(self, patterns: Sequence[Pattern]) -> None:
        """Check that running brokers know the patterns' types, and that new znodes get an owner."""
        needed = {pattern_path(each).rpartition("/")[0]: each for each in patterns}
        if self._session.list_children(LITERAL_ROOT) is None or self._options.oldest is not None:
            needed = {}
        for parent, pattern in needed.items():
            if self._session.list_children(parent) is None:
                raise ZooKeeperError(
                    f"{self._session.name}: there is no {parent}, which brokers create at startup "
                    "if they support such patterns. So the running brokers are too old for "
                    f"{escape_unprintable(pattern_path(pattern))}: state their oldest version with "
                    f"{OLDEST_FLAG}"
                )
        for pattern in patterns:
            self._new_znodes.choose(pattern_path(pattern))
            self._new_znodes.choose(new_change_event(pattern, self._target.oldest).path)

    def _create_parents(self) -> None:
        """Create the parents that brokers create at startup, if one of them is needed."""
        if not self._new_znodes.has_missing_parents:
            return
        for path in list_parents(self._target.oldest):
            self._commit(path, partial(self._find_missing_parent, path))

    def _find_missing_parent(self, path: str) -> Changes:
        if self._session.list_children(path) is not None:
            return ()
        return (Create(path, b"", self._new_znodes.choose(path)),)

    def _new_error(self, path: str, reason: str) -> ZooKeeperError:
        return ZooKeeperError(escape_unprintable(f"{self._session.name}: {path}: {reason}"))


def _divide(acls: Iterable[Acl]) -> Iterator[tuple[Pattern, list[Acl]]]:
    """Yield the ACLs to add to each pattern: all denials first, then the others."""
    denials: dict[Pattern, list[Acl]] = {}
    grants: dict[Pattern, list[Acl]] = {}
    for acl in acls:
        (grants if is_grant(acl) else denials).setdefault(Pattern.of(acl), []).append(acl)
    yield from denials.items()
    yield from grants.items()


class NewZnodes:
    """Chooses permissions, reading those of each parent once."""

    def __init__(self, session: Session, *, accepts_open: bool) -> None:
        self._session = session
        self._accepts_open = accepts_open
        self._below: dict[str, tuple[Permission, ...]] = {}
        self.has_missing_parents = False

    def choose(self, path: str) -> tuple[Permission, ...]:
        """Return the permissions of a new znode. Its parents need not exist yet. Blocks."""
        parent = path.rpartition("/")[0] or "/"
        if parent not in self._below:
            self._below[parent] = self._choose_below(parent)
        return self._below[parent]

    def _choose_below(self, parent: str) -> tuple[Permission, ...]:
        of_parent = self._session.get_permissions(parent)
        if of_parent is None:
            self.has_missing_parents = True
            of_parent = self.choose(parent)
        try:
            return choose_permissions(
                of_parent,
                is_authenticated=self._session.is_authenticated,
                accepts_open=self._accepts_open,
            )
        except OpenZnodeError:
            raise ZooKeeperError(
                f"{self._session.name}: everyone could change the new znodes below {parent}, and "
                "grant themselves any right: log in with the keys of --command-config, as the "
                f"brokers do with zookeeper.set.acl=true; or accept it with {OPEN_FLAG}, if the "
                "brokers' znodes are also open"
            ) from None
        except HiddenOwnerError:
            raise ZooKeeperError(
                f"{self._session.name}: ZooKeeper does not show who owns {parent}: log in as a "
                "user with the permission ADMIN on it"
            ) from None
