"""The state and its changes, as orders of the feed.

**Invariant:** the changes that a worker applies give the daemon's state at the same log offset.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Final, TypeAlias, TypeVar

from msgspec.structs import force_setattr

from authorizerd.acl.difference import plan_differences
from authorizerd.acl.model import AclAdded, AclRemoved, Change, ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.image.changes import (
    ClusterChange,
    FeatureLevel,
    NodeRegistered,
    NodeUnregistered,
    TopicAdded,
    TopicRemoved,
    VotersChanged,
)
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage
from authorizerd.image.difference import plan_image_differences
from authorizerd.image.features import METADATA_VERSION_FEATURE
from authorizerd.protocol.worker_feed import (
    Loaded,
    ReleaseRow,
    Row,
    TakeChanges,
    TopicRow,
    encode_message,
)

CHANGES_PER_FRAME: Final = 128
CATCH_UPS_MAX: Final = 10
"""Maximum number of differences sent after a state, before changes are sent one by one."""
OFFSETS_AT_ONCE: Final = 20_000
"""Another difference follows if the log has grown by more offsets than this in the meantime."""
TEXTS_KEPT: Final = 65_536
"""Maximum number of names, principals and hosts that a worker keeps to share them."""

T = TypeVar("T")

State: TypeAlias = tuple[AclSnapshot, ClusterImage]


def encode_state(
    number: int, newest: Callable[[], State], on_last: Callable[[AclSnapshot], None]
) -> Iterator[bytes]:
    """Yield the frames of one order: use the newest ACLs and topics.

    Changes made while a state is sent follow as a difference from the next state, so that nothing
    has to wait, however long the worker takes. An empty frame is a pause for other tasks.

    Args:
        newest: returns the newest state.
        on_last: called with the last snapshot whose difference is sent. From then on, the caller
            queues all later changes behind this order.
    """
    state = newest()
    yield from _encode_whole(number, *state)
    for is_allowed in (True,) * CATCH_UPS_MAX + (False,):
        before, state = state, newest()
        snapshot = state[0]
        is_last = not is_allowed or snapshot.offset - before[0].offset <= OFFSETS_AT_ONCE
        if is_last:
            on_last(snapshot)
        yield from _encode_difference(number, before, state)
        if is_last:
            break
    yield encode_message(Loaded(number, snapshot.offset))


def _encode_whole(number: int, snapshot: AclSnapshot, image: ClusterImage) -> Iterator[bytes]:
    rows: Iterator[Row] = iter(snapshot.acls.items())
    while chunk := list(islice(rows, CHANGES_PER_FRAME)):
        yield encode_message(TakeChanges(number, snapshot.offset, chunk, is_end=False))
    topics: Iterator[TopicRow] = iter(image.topic_names.items())
    while named := list(islice(topics, CHANGES_PER_FRAME)):
        yield encode_message(TakeChanges(number, snapshot.offset, [], False, named))
    evidence = ClusterImage(features=image.features, nodes=image.nodes, voters=image.voters)
    proofs = yield from _pause_between(plan_image_differences(EMPTY_IMAGE, evidence))
    if proofs:
        part = ChangeBatch(snapshot.offset, (), False, tuple(proofs))
        yield from encode_changes(number, part)


def _encode_difference(number: int, before: State, after: State) -> Iterator[bytes]:
    snapshot, image = after
    changes: list[Change] = []
    topics: list[ClusterChange] = []
    if snapshot.acls is not before[0].acls:
        changes = yield from _pause_between(plan_differences(before[0], snapshot.acls))
    if image is not before[1]:
        topics = yield from _pause_between(plan_image_differences(before[1], image))
    if changes or topics:
        part = ChangeBatch(snapshot.offset, tuple(changes), False, tuple(topics))
        yield from encode_changes(number, part)


def _pause_between(steps: Generator[None, None, T]) -> Generator[bytes, None, T]:
    """Return the result of the steps; yield an empty frame after each of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        yield b""


def encode_changes(number: int, batch: ChangeBatch) -> Iterator[bytes]:
    """Yield the frames of one order: apply these changes, which become visible together.

    Of the cluster's changes, workers need only changes of topics, and changes that prove releases.
    """
    changes, topics = batch.changes, list(_topic_rows(batch.cluster_changes))
    releases = list(_release_rows(batch.cluster_changes))
    count = max(len(changes), len(topics), len(releases))
    # A batch without changes is sent as well, to advance the workers' offset.
    for start in range(0, count or 1, CHANGES_PER_FRAME):
        end = start + CHANGES_PER_FRAME
        rows = list(_rows(changes[start:end]))
        is_end = batch.is_end and end >= count
        yield encode_message(
            TakeChanges(
                number, batch.last_offset, rows, is_end, topics[start:end], releases[start:end]
            )
        )


def _release_rows(changes: Iterable[ClusterChange]) -> Iterator[ReleaseRow]:
    for change in [each for each in changes if isinstance(each, _PROOFS)]:  # few, if any
        match change:
            case NodeRegistered(is_controller, id, level):
                yield "registered", (int(is_controller), id, level)
            case NodeUnregistered(is_controller, id):
                yield "unregistered", (int(is_controller), id)
            case VotersChanged(None):
                yield "no voters", ()
            case VotersChanged(ids):
                yield "voters", tuple(ids or ())
            case FeatureLevel(name, level) if name == METADATA_VERSION_FEATURE:
                yield "level", (level,)


_PROOFS: Final = (NodeRegistered, NodeUnregistered, VotersChanged, FeatureLevel)


def _to_release_change(row: ReleaseRow) -> ClusterChange:
    match row:
        case "registered", (is_controller, id, level):
            return NodeRegistered(bool(is_controller), id, level)
        case "unregistered", (is_controller, id):
            return NodeUnregistered(bool(is_controller), id)
        case "no voters", ():
            return VotersChanged(None)
        case "voters", ids:
            return VotersChanged(frozenset(ids))
        case "level", (level,):
            return FeatureLevel(METADATA_VERSION_FEATURE, level)
    raise AssertionError(f"unexpected change in the feed: {row}")


def _topic_rows(changes: Iterable[ClusterChange]) -> Iterator[TopicRow]:
    for change in [each for each in changes if isinstance(each, TopicAdded | TopicRemoved)]:
        yield change.id, change.name if isinstance(change, TopicAdded) else None


def _rows(changes: Iterable[Change]) -> Iterator[Row]:
    for change in changes:
        yield change.id, change.acl if isinstance(change, AclAdded) else None


_TEXT_FIELDS: Final = ("resource_name", "principal", "host")


class SharedTexts:
    """One copy of each name, principal and host that recurs.

    A decoder makes new strings for every ACL, which would almost double a worker's memory. While a
    state is loaded, ``SnapshotBuilder`` shares them.
    """

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: Final[dict[str, str]] = {}

    def share(self, text: str) -> str:
        """Return an equal text that was shared before, or this one."""
        if len(self._texts) >= TEXTS_KEPT:
            self._texts.clear()
        return self._texts.setdefault(text, text)

    def __len__(self) -> int:
        """Return the number of kept texts."""
        return len(self._texts)


def to_batch(order: TakeChanges, texts: SharedTexts | None) -> ChangeBatch:
    """Return the changes of an order in the form that the daemon itself applies.

    Args:
        texts: shares the texts of added ACLs; None while a state is loaded.
    """
    changes: list[Change] = [
        AclRemoved(key) if acl is None else AclAdded(key, acl) for key, acl in order.rows
    ]
    if texts is not None:
        for _, acl in order.rows:
            for field in () if acl is None else _TEXT_FIELDS:
                force_setattr(acl, field, texts.share(getattr(acl, field)))
    topics: list[ClusterChange] = [
        TopicRemoved(key) if name is None else TopicAdded(name, key) for key, name in order.topics
    ]
    releases = map(_to_release_change, order.releases)
    return ChangeBatch(order.offset, tuple(changes), order.is_end, (*topics, *releases))
