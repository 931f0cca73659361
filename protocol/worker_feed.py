"""The feed between the daemon and one of its workers, without a socket: orders down, reports up.

**Invariant:** a worker executes its orders in sequence, and reports each one once it is done. An
order may take several frames, all with its number. Frames are short, so that reading one blocks
neither end.

Each frame is a 4-byte big-endian size and one msgpack array. Both ends are the same version of the
same program, so an invalid frame means a defect and ends the worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec.structs import astuple

from authorizerd.acl.decoding_errors import DECODING_ERRORS, describe_decoding_error
from authorizerd.acl.difference import plan_differences
from authorizerd.acl.model import Acl, AclAdded, AclRemoved, Change, ChangeBatch
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
from authorizerd.protocol.framing import Frames, frame

FEED_FRAME_BYTES_MAX: Final = 64 * 1024 * 1024  # a configuration and a tokens file fit easily
CHANGES_PER_FRAME: Final = 128
CATCH_UPS_MAX: Final = 10
"""Maximum number of differences that follow a state, before changes are sent one by one."""
OFFSETS_AT_ONCE: Final = 20_000
"""A state is followed by another difference if the log has grown by more offsets meanwhile."""
TEXTS_KEPT: Final = 65_536
"""How many names, principals and hosts a worker recognizes while it loads."""
_SHARDS: Final = 16

T = TypeVar("T")

State: TypeAlias = tuple[AclSnapshot, ClusterImage]

Address: TypeAlias = tuple[int, str, int, int, int]
"""A socket's family, and its host, port, flow and scope. The last two are 0 except for IPv6."""
Row: TypeAlias = tuple[bytes, tuple[int, str, int, str, str, int, int] | None]
"""An ACL's id, and the fields of an added ACL, or None for a removed one."""


TopicRow: TypeAlias = tuple[bytes, str | None]
"""A topic's id, and the name of an added topic, or None for a removed one."""
ReleaseRow: TypeAlias = tuple[str, tuple[int, ...]]
"""A change that may change the rules by which ACLs are judged: its name, and its numbers."""


class Place(msgspec.Struct, array_like=True, frozen=True):
    """Where to accept connections: on new sockets at ``addresses``, or on inherited ones."""

    name: str
    addresses: tuple[Address, ...] = ()
    descriptors: tuple[int, ...] = ()


class Stores(msgspec.Struct, array_like=True, frozen=True):
    """The TLS settings of the decision ports, as text by key, and their certificates and key.

    ``chain``, ``key`` and ``trusted`` are as in ``tls.material.Material``.
    """

    texts: dict[str, str]
    chain: tuple[bytes, ...]
    key: bytes
    trusted: tuple[bytes, ...]

    def __repr__(self) -> str:
        """Return a text without passwords and keys, safe for logs."""
        return "Stores()"


class Begin(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """The first order. ``configuration`` has the keys with which the daemon was started, as text.

    ``audit_secret`` and ``stores`` are as in ``Files``. ``audit_turns`` is the descriptor of the
    lock that processes hold to write audit lines. ``page_secret`` is that of ``PageTokens``.
    ``questions`` is the descriptor of the socket with which a worker asks the query process.
    """

    number: int
    configuration: dict[str, str]
    places: tuple[Place, ...] = ()
    audit_secret: bytes = b""
    audit_turns: int | None = None
    stores: Stores | None = None
    page_secret: bytes = b""
    questions: int | None = None

    def __repr__(self) -> str:
        """Return a text without passwords, safe for logs."""
        return f"Begin(number={self.number}, places={self.places})"


class TakeSettings(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """Apply these settings: every key that has a value, as text."""

    number: int
    texts: dict[str, str]

    def __repr__(self) -> str:
        """Return a text without passwords, safe for logs."""
        return f"TakeSettings(number={self.number})"


class TakeChanges(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """Some changes of the batch that ends at log offset ``offset``.

    ``is_end`` marks the last part. ``topics`` has topics by their ids; a removed one has no name.
    ``releases`` has the changes that may change the rules by which ACLs are judged.
    """

    number: int
    offset: int
    rows: list[Row]
    is_end: bool
    topics: list[TopicRow] = []
    releases: list[ReleaseRow] = []


class Loaded(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """The changes passed on so far are the complete state at log offset ``offset``."""

    number: int
    offset: int


class Files(msgspec.Struct, array_like=True, frozen=True):
    """The contents of the files that the configuration names, as the daemon uses them.

    ``tokens`` is the text of the tokens file, or None. ``audit_secret`` is the key for hashing
    names in audit lines. ``stores`` is TLS of the decision ports, or None.
    """

    tokens: str | None = None
    audit_secret: bytes = b""
    stores: Stores | None = None

    def __repr__(self) -> str:
        """Return a text without the contents, safe for logs."""
        return "Files()"


class TakeFiles(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """Use the contents of these files, and reopen the audit log's file."""

    number: int
    files: Files


class Report(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """Report the counters, and decide until ``deadline``, a time of the machine's boot clock.

    The deadline is that of the state after all orders before this one, and of the worker's lease.
    """

    number: int
    deadline: float = math.inf


class Listen(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """Accept connections."""

    number: int


class Drain(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """Accept no more connections, answer what is under way, and end."""

    number: int


class StopDecisions(msgspec.Struct, array_like=True, frozen=True, tag=8):
    """Answer nobody but super users any more. Others are told the reason."""

    number: int
    reason: str


Order = (
    Begin
    | TakeSettings
    | TakeChanges
    | Loaded
    | TakeFiles
    | Report
    | Listen
    | Drain
    | StopDecisions
)


class Done(msgspec.Struct, array_like=True, frozen=True):
    """An order is done. ``offset`` is the log offset of the worker's ACLs, -1 before the first.

    ``counters`` has all of the worker's counters, if they were requested.
    """

    number: int
    offset: int
    counters: dict[str, int] | None = None


_encode: Final = msgspec.msgpack.Encoder().encode


class FeedReader(Generic[T]):
    """Read the messages of the feed, one after the other."""

    __slots__ = ("_decoder", "_frames")

    def __init__(self, decoder: msgspec.msgpack.Decoder[T]) -> None:
        self._decoder = decoder
        self._frames = Frames()

    def receive_data(self, data: bytes | bytearray) -> None:
        self._frames.receive_data(data)

    def next_message(self) -> T | None:
        """Return the next message, or None until it is complete.

        Raises:
            DecodeError: the frame is not a message.
        """
        data = self._frames.next(FEED_FRAME_BYTES_MAX)
        if data is None:
            return None
        try:
            return self._decoder.decode(data)
        except DECODING_ERRORS as error:
            reason = describe_decoding_error(error)
            raise self._frames.refuse(f"expected a message of the feed: {reason}", 0) from None


def order_reader() -> FeedReader[Order]:
    """Return the reader with which a worker reads its feed."""
    decoder: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
    return FeedReader(decoder)


def report_reader() -> FeedReader[Done]:
    """Return the reader with which the daemon reads a worker's reports."""
    return FeedReader(msgspec.msgpack.Decoder(Done))


def encode_message(message: Order | Done) -> bytes:
    """Return the frame of one message."""
    return frame(_encode(message))


def encode_state(
    number: int, newest: Callable[[], State], on_last: Callable[[AclSnapshot], None]
) -> Iterator[bytes]:
    """Yield the frames of one order: use the newest ACLs and topics.

    What changes while a state is sent is sent as its difference from the next one, so that nothing
    waits meanwhile, however long the worker takes. An empty frame is a pause, for other tasks.

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
    rows: Iterator[Row] = ((key, astuple(acl)) for key, acl in snapshot.acls.items())
    while some := list(islice(rows, CHANGES_PER_FRAME)):
        yield encode_message(TakeChanges(number, snapshot.offset, some, is_end=False))
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

    Of the cluster's changes, workers need only those of topics, and those that prove releases.
    """
    changes, topics = batch.changes, list(_topic_rows(batch.cluster_changes))
    releases = list(_release_rows(batch.cluster_changes))
    count = max(len(changes), len(topics), len(releases))
    # A batch without changes is sent as well: it advances the workers' offset.
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
    for change in changes:
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
    raise AssertionError(f"the daemon sends no such change: {row}")


def _topic_rows(changes: Iterable[ClusterChange]) -> Iterator[TopicRow]:
    for change in changes:
        if isinstance(change, TopicAdded):
            yield change.id, change.name
        elif isinstance(change, TopicRemoved):
            yield change.id, None


def _rows(changes: Iterable[Change]) -> Iterator[Row]:
    for change in changes:
        yield change.id, astuple(change.acl) if isinstance(change, AclAdded) else None


class SharedTexts:
    """One copy of each name, principal and host that recurs.

    A decoder makes new strings for every ACL, which would almost double a worker's memory.
    """

    __slots__ = ("_shards",)

    def __init__(self) -> None:
        # One large dict would block the event loop whenever it grows.
        self._shards: list[dict[str, str]] = [{} for _ in range(_SHARDS)]

    def share(self, text: str) -> str:
        """Return an equal text that was shared before, or this one."""
        shard = self._shards[hash(text) % _SHARDS]
        if len(shard) >= TEXTS_KEPT // _SHARDS:
            shard.clear()
        return shard.setdefault(text, text)

    def __len__(self) -> int:
        """Return how many texts are kept."""
        return sum(map(len, self._shards))

    def clear(self) -> None:
        """Forget all texts; ACLs keep those that they have."""
        for shard in self._shards:
            shard.clear()


def to_batch(order: TakeChanges, texts: SharedTexts) -> ChangeBatch:
    """Return the changes of an order in the form in which the daemon itself applies them."""
    share = texts.share
    changes: list[Change] = []
    for key, row in order.rows:
        if row is None:
            changes.append(AclRemoved(key))
            continue
        resource_type, name, pattern_type, principal, host, operation, permission_type = row
        acl = Acl(
            resource_type,
            share(name),
            pattern_type,
            share(principal),
            share(host),
            operation,
            permission_type,
        )
        changes.append(AclAdded(key, acl))
    topics: list[ClusterChange] = [
        TopicRemoved(key) if name is None else TopicAdded(name, key) for key, name in order.topics
    ]
    releases = map(_to_release_change, order.releases)
    return ChangeBatch(order.offset, tuple(changes), order.is_end, (*topics, *releases))
