"""Plans for creations and deletions: the changes to make, and the answer to each item.

A plan is made against the tail of the log: a snapshot, and the changes that are planned but not
applied yet.

**Invariant:** a plan changes only the tail, by the whole request or not at all. A duplicate
creation succeeds and writes nothing. Each filter of a deletion sees the state before the request.

Plans are made in chunks (``acl.steps``), since a request may have many items, and its filters are
compared with every ACL.

Source: KIP-140; Kafka 4.3 AclControlManager.createAcls and deleteAcls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Generic, TypeAlias, TypeVar

from authorizerd.acl.errors import AclError, InvalidAclError, PolicyViolationError, StateMovedError
from authorizerd.acl.expected_offset import ExpectedOffset, check_unchanged
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.index.filter_index import FilterIndex
from authorizerd.acl.model import Acl, AclAdded, AclFilter, AclRemoved
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.snapshot import AclSnapshot, contains
from authorizerd.acl.steps import Steps, in_chunks
from authorizerd.acl.validation import validate_filter, validate_new_acl

ChangeT_co = TypeVar("ChangeT_co", covariant=True)
ResultT_co = TypeVar("ResultT_co", covariant=True)

RECORDS_PER_REQUEST_MAX: Final = 10_000
MATCHES_PER_REQUEST_MAX: Final = 100_000
"""The maximum number of matches of one deletion. An ACL counts once for each filter that matches
it."""
MATCH_BYTES_PER_REQUEST_MAX: Final = 16 * 1024 * 1024
BYTES_PER_REQUEST_MAX: Final = 8 * 1024 * 1024 - 1024
"""One request is written as one batch of at most 8 MiB. The last 1024 bytes are for its header."""

CHARACTERS_TOGETHER: Final = 16_384
"""The texts of new ACLs that one step plans, unless it plans one ACL. The costliest ones, hosts
with a slash that cannot be read as ranges, take 8 ns for each character."""

_RECORD_BYTES_WITHOUT_TEXTS: Final = 64

FAULTS_PER_REQUEST_MAX: Final = 1000
"""The number of different errors that one creation request reports.

Items with other errors get a fixed text.
"""

_FURTHER_FAULT: Final = InvalidAclError("Invalid ACL: see the errors of the first invalid items.")
TOO_MANY_CREATED: Final = "Unable to perform excessively large batch operation."
TOO_MANY_REMOVED: Final = (
    f"Cannot remove more than {RECORDS_PER_REQUEST_MAX} acls in a single delete operation."
)
TOO_MUCH_REPORTED: Final = (
    f"Cannot report more than {MATCHES_PER_REQUEST_MAX} matches, or "
    f"{MATCH_BYTES_PER_REQUEST_MAX // 2**20} MiB of them, in a single delete operation: use fewer "
    "overlapping filters, or narrower ones."
)


@dataclass(slots=True)
class AclTail:
    """A snapshot, and what planned requests add to it and remove from it.

    ``changed_at`` is the log offset of the last change of ACLs, or a later one. ``removed`` are
    ACLs of the snapshot. An ACL that is added again later is also in ``added``.
    """

    snapshot: AclSnapshot
    changed_at: int = -1
    added: dict[Acl, bytes] = field(default_factory=dict)
    removed: set[Acl] = field(default_factory=set)

    def has(self, acl: Acl) -> bool:
        """Return True if this valid ACL exists."""
        if acl in self.added:
            return True
        in_snapshot = contains(self.snapshot.types[acl.resource_type], acl)
        return in_snapshot and acl not in self.removed

    def find_conflict(self, guard: ExpectedOffset | None) -> StateMovedError | None:
        """Return why the condition of a request does not hold here, or None if it does."""
        if guard is None or not guard.is_conditional:
            return None
        offset = self.snapshot.offset
        try:
            check_unchanged(guard.expected_offset, offset=offset, changed_at=self.changed_at)
        except StateMovedError as error:
            if isinstance(guard, TailGuard) and guard.permits(self):
                return None
            # The traceback has frames that hold the tail and this error, so they would be a cycle.
            return error.with_traceback(None)
        return None

    def chunks(self) -> Iterator[list[tuple[bytes, Acl]]]:
        """Yield the ids of all ACLs and the ACLs, in lists of bounded length."""
        removed = self.removed
        for chunk in scan_acls(self.snapshot, AclFilter()):
            yield [item for item in chunk if item[1] not in removed] if removed else chunk
        yield from in_chunks((acl_id, acl) for acl, acl_id in self.added.items())

    def add(self, changes: Iterable[AclAdded]) -> None:
        """Add what a plan creates."""
        for change in changes:
            self.changed_at = self.snapshot.offset + 1  # after every offset that a client has seen
            self.added[change.acl] = change.id

    def remove(self, acls: Iterable[Acl]) -> None:
        """Remove what a plan deletes."""
        for acl in acls:
            self.changed_at = self.snapshot.offset + 1
            if self.added.pop(acl, None) is None:
                self.removed.add(acl)


class TailGuard(ExpectedOffset):
    """A condition that some changes of ACLs after the expected offset leave true."""

    __slots__ = ()

    def permits(self, tail: AclTail) -> bool:
        """Return True if the changes up to the tail do not matter to the request."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Plan(Generic[ChangeT_co, ResultT_co]):
    """The changes of one request, and its answer.

    ``result`` has one entry per item: for a creation None or its error, for a deletion ``Deleted``.
    """

    changes: tuple[ChangeT_co, ...]
    result: ResultT_co


_NO_FAILURES: Final[Mapping[Acl, Exception]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Deleted:
    """The answer to one filter: the ACLs that it matched, or why it is invalid.

    ``failures`` has the matched ACLs that were not deleted, and why. The built-in authorizer has
    none.
    """

    acls: tuple[Acl, ...] = ()
    error: AclError | None = None
    # A factory, since a dataclass accepts only hashable defaults.
    failures: Mapping[Acl, Exception] = field(default_factory=lambda: _NO_FAILURES)


Creation: TypeAlias = Plan[AclAdded, Sequence[AclError | None]]
Deletion: TypeAlias = Plan[AclRemoved, Sequence[Deleted]]

_NOTHING_DELETED: Final = Deleted()


def plan_creations(
    tail: AclTail, acls: Sequence[Acl], new_id: Callable[[], bytes]
) -> Steps[Creation]:
    """Plan one creation request, and advance the tail.

    Args:
        new_id: returns a 16-byte id that no ACL has. It is not called for a duplicate.
    """
    changes: dict[Acl, AclAdded] = {}
    errors: list[AclError | None] = []
    faults: dict[str, AclError] = {}
    rules, size = tail.snapshot.rules, 0
    for chunk in _in_light_chunks(acls):
        for acl in chunk:
            error = _creation_error(acl, rules, faults)
            if error is None and acl not in changes and not tail.has(acl):
                changes[acl] = AclAdded(new_id(), acl)
                size += record_bytes_max(acl)
                if len(changes) > RECORDS_PER_REQUEST_MAX or size > BYTES_PER_REQUEST_MAX:
                    return Plan((), (PolicyViolationError(TOO_MANY_CREATED),) * len(acls))
            errors.append(error)
        yield
    tail.add(changes.values())
    return Plan(tuple(changes.values()), tuple(errors))


def _in_light_chunks(acls: Sequence[Acl]) -> Iterator[list[Acl]]:
    """Yield ``acls``, in order, in chunks; those of a chunk with long texts one by one."""
    for chunk in in_chunks(acls):
        texts = sum(len(acl.resource_name) + len(acl.principal) + len(acl.host) for acl in chunk)
        if texts > CHARACTERS_TOGETHER:
            yield from ([acl] for acl in chunk)
        else:
            yield chunk


def record_bytes_max(acl: Acl) -> int:
    """Return the maximum size in bytes of a new ACL's record."""
    name, principal, host = acl.resource_name, acl.principal, acl.host
    if name.isascii() and principal.isascii() and host.isascii():  # usual: encode nothing
        return _RECORD_BYTES_WITHOUT_TEXTS + len(name) + len(principal) + len(host)
    texts = (name, principal, host)
    return _RECORD_BYTES_WITHOUT_TEXTS + sum(len(text.encode()) for text in texts)


def _creation_error(acl: Acl, rules: ReleaseRules, faults: dict[str, AclError]) -> AclError | None:
    """Return the error of a creation, or None.

    Items whose error texts are equal share one error in ``faults``, since freeing many exceptions
    takes long.
    """
    try:
        validate_new_acl(acl, rules)
    except InvalidAclError as error:
        if len(faults) >= FAULTS_PER_REQUEST_MAX:
            return faults.get(str(error), _FURTHER_FAULT)
        # The traceback has frames that hold states and this error: nobody would free this cycle.
        return faults.setdefault(str(error), error.with_traceback(None))
    return None


def plan_deletions(tail: AclTail, filters: Sequence[AclFilter]) -> Steps[Deletion]:
    """Plan one deletion request, and advance the tail.

    Each ACL is compared with all filters at once. The search stops as soon as there are more
    matches than one request may remove or report. As in Kafka, once earlier filters match as many
    ACLs as one request may remove, a later filter that matches anything is too many.
    """
    matches = _Matches()
    answers: list[int | Deleted] = []
    faults: dict[str, Deleted] = {}
    for position, each in enumerate(filters, 1):
        try:
            validate_filter(each)
        except InvalidAclError as error:
            kept = error.with_traceback(None)  # as in ``_creation_error``
            answers.append(faults.setdefault(str(error), Deleted(error=kept)))
        else:
            answers.append(matches.add_filter(each, position))
        yield
    yield from matches.find(tail)
    if matches.error is not None:
        return Plan((), (Deleted(error=matches.error),) * len(filters))
    results: list[Deleted] = []
    for answer in answers:
        results.append(matches.deleted_by(answer) if isinstance(answer, int) else answer)
        yield
    tail.remove(matches.removed.values())
    return Plan(tuple(map(AclRemoved, matches.removed)), tuple(results))


class _Matches:
    """The matches of one request's filters. ``error`` is set if there are too many."""

    __slots__ = (
        "_bytes", "_count", "_deleted", "_first_positions", "_found", "_index", "_last_match",
        "_last_new", "_last_positions", "_repeats", "error", "removed",
    )  # fmt: skip

    def __init__(self) -> None:
        self._index = FilterIndex()
        # By filter number: how often the request contains the filter, and where.
        self._repeats: list[int] = []
        self._first_positions: list[int] = []
        self._last_positions: list[int] = []
        self._last_new = self._last_match = 0
        """The last positions of a filter that is first to match an ACL, and of a filter that
        matches any."""
        self._count = self._bytes = 0
        self._found: dict[int, list[Acl]] = {}
        self._deleted: dict[int, Deleted] = {}
        self.removed: dict[bytes, Acl] = {}
        self.error: AclError | None = None

    def add_filter(self, filter: AclFilter, position: int) -> int:
        """Return the filter's number. Equal filters share one number."""
        number = self._index.add(filter)
        if number == len(self._repeats):
            self._repeats.append(0)
            self._first_positions.append(position)
            self._last_positions.append(position)
        self._repeats[number] += 1
        self._last_positions[number] = position
        return number

    def find(self, tail: AclTail) -> Steps[None]:
        """Look up every ACL. Stop as soon as there are too many matches."""
        if self._repeats:
            yield from self._find(tail)
        if len(self.removed) == RECORDS_PER_REQUEST_MAX and self._last_match > self._last_new:
            self.error = InvalidAclError(TOO_MANY_REMOVED)

    def _find(self, tail: AclTail) -> Steps[None]:
        unmatched = self._first_positions[-1] + 1
        for chunk in tail.chunks():
            for acl_id, acl in chunk:
                first = unmatched
                for number in self._index.look_up(acl):
                    self._add(number, acl_id, acl)
                    first = min(first, self._first_positions[number])
                    if self.error is not None:
                        return
                    yield  # one ACL may match very many filters
                if first < unmatched:
                    self._last_new = max(self._last_new, first)
                yield

    def _add(self, number: int, acl_id: bytes, acl: Acl) -> None:
        self._found.setdefault(number, []).append(acl)
        self.removed[acl_id] = acl
        self._last_match = max(self._last_match, self._last_positions[number])
        repeats = self._repeats[number]
        self._count += repeats
        self._bytes += repeats * record_bytes_max(acl)
        if len(self.removed) > RECORDS_PER_REQUEST_MAX:
            self.error = InvalidAclError(TOO_MANY_REMOVED)
        elif self._count > MATCHES_PER_REQUEST_MAX or self._bytes > MATCH_BYTES_PER_REQUEST_MAX:
            self.error = PolicyViolationError(TOO_MUCH_REPORTED)

    def deleted_by(self, number: int) -> Deleted:
        """Return the answer to the filter with this number. Equal filters share one value."""
        if number not in self._found:
            return _NOTHING_DELETED
        deleted = self._deleted.get(number)
        if deleted is None:
            deleted = self._deleted[number] = Deleted(tuple(self._found[number]))
        return deleted
