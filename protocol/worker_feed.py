"""The feed between the daemon and one of its workers, without the socket: orders down, reports up.

Law: a worker does what it is ordered in order, and reports each order once it is done. An order may
take several frames, all of its number; none of them is long, so that neither end is held by one.

Each frame is a size of four bytes, big-endian, and one msgpack array. Both ends are one version of
one program, so a frame that cannot be read means a defect, and ends the worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec.structs import astuple

from authorizerd.acl.model import Acl, AclAdded, AclRemoved, Change, ChangeBatch
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.protocol.framing import Frames, frame

FEED_FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
CHANGES_PER_FRAME: Final = 128

T = TypeVar("T")

Address: TypeAlias = tuple[int, str, int, int, int]
"""A socket's family; its host, port, flow and scope, the last two 0 where it is not IPv6."""
Row: TypeAlias = tuple[bytes, tuple[int, str, int, str, str, int, int] | None]
"""An ACL's id, and the fields of what was added; None where it was removed."""


class Place(msgspec.Struct, array_like=True, frozen=True):
    """Where to accept: at addresses of its own, or from inherited sockets' file descriptors."""

    name: str
    addresses: tuple[Address, ...] = ()
    descriptors: tuple[int, ...] = ()


class Begin(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """The first order; ``configuration`` has the keys that the daemon was started with, as text.

    ``audit_secret`` is as in ``Files``; ``audit_turns`` is the descriptor of the lock with which
    processes write audit lines by turns.
    """

    number: int
    configuration: dict[str, str]
    places: tuple[Place, ...] = ()
    audit_secret: bytes = b""
    audit_turns: int | None = None

    def __repr__(self) -> str:
        """Return what may stand in a log: no password."""
        return f"Begin(number={self.number}, places={self.places})"


class TakeSettings(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """Put these settings in force: every key that has a value, as text."""

    number: int
    texts: dict[str, str]

    def __repr__(self) -> str:
        """Return what may stand in a log: no password."""
        return f"TakeSettings(number={self.number})"


class TakeChanges(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """Some changes of the batch that ends at log offset ``offset``; all are there at its end."""

    number: int
    offset: int
    rows: list[Row]
    is_end: bool


class Loaded(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """What was handed on so far is the state at log offset ``offset``."""

    number: int
    offset: int


class Files(msgspec.Struct, array_like=True, frozen=True):
    """What the daemon has in force of the files that its configuration names.

    ``tokens`` is the text of the tokens file, None where there is none; ``audit_secret`` is what
    hashes of names in audit lines are keyed with.
    """

    tokens: str | None = None
    audit_secret: bytes = b""

    def __repr__(self) -> str:
        """Return what may stand in a log: nothing of the content."""
        return "Files()"


class TakeFiles(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """Put the content of these files in force, and open the audit's file anew."""

    number: int
    files: Files


class Report(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """Report the counters."""

    number: int


class Listen(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """Accept connections."""

    number: int


class Drain(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """Accept no more, answer what is under way, and end."""

    number: int


Order = Begin | TakeSettings | TakeChanges | Loaded | TakeFiles | Report | Listen | Drain


class Done(msgspec.Struct, array_like=True, frozen=True):
    """An order is done; ``offset`` is the log offset that the worker decides by, -1 before any.

    ``counters`` has all that the worker has counted, where that was asked for.
    """

    number: int
    offset: int
    counters: dict[str, int] | None = None


_encode: Final = msgspec.msgpack.Encoder().encode


class FeedReader(Generic[T]):
    """What came over the feed, one message after the other."""

    __slots__ = ("_decoder", "_frames")

    def __init__(self, decoder: msgspec.msgpack.Decoder[T]) -> None:
        self._decoder = decoder
        self._frames = Frames()

    def receive_data(self, data: bytes | bytearray) -> None:
        self._frames.receive_data(data)

    def next_message(self) -> T | None:
        """Return the next message, None until all of it has come.

        Raises:
            DecodeError: it is none.
        """
        data = self._frames.next(FEED_FRAME_BYTES_MAX)
        if data is None:
            return None
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise self._frames.refuse(f"no message of the feed: {error}", 0) from None


def order_reader() -> FeedReader[Order]:
    """Return what a worker reads its feed with."""
    decoder: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
    return FeedReader(decoder)


def report_reader() -> FeedReader[Done]:
    """Return what the daemon reads a worker's reports with."""
    return FeedReader(msgspec.msgpack.Decoder(Done))


def encode_message(message: Order | Done) -> bytes:
    """Return the frame of one message."""
    return frame(_encode(message))


def snapshot_frames(number: int, snapshot: AclSnapshot) -> Iterator[bytes]:
    """Yield the frames of one order: take over this snapshot."""
    rows: Iterator[Row] = ((key, astuple(acl)) for key, acl in snapshot.acls.items())
    while some := list(islice(rows, CHANGES_PER_FRAME)):
        yield encode_message(TakeChanges(number, snapshot.offset, some, is_end=False))
    yield encode_message(Loaded(number, snapshot.offset))


def batch_frames(number: int, batch: ChangeBatch) -> Iterator[bytes]:
    """Yield the frames of one order: make these changes of ACLs, all of which show at once."""
    changes = batch.changes
    for start in range(0, len(changes) or 1, CHANGES_PER_FRAME):
        is_end = batch.is_end and start + CHANGES_PER_FRAME >= len(changes)
        rows = list(_rows(changes[start : start + CHANGES_PER_FRAME]))
        yield encode_message(TakeChanges(number, batch.last_offset, rows, is_end))


def _rows(changes: Iterable[Change]) -> Iterator[Row]:
    for change in changes:
        yield change.id, astuple(change.acl) if isinstance(change, AclAdded) else None


def batch_of(order: TakeChanges) -> ChangeBatch:
    """Return what an order brings, as the daemon's own source would hand it on."""
    changes = tuple(
        AclRemoved(key) if fields is None else AclAdded(key, Acl(*fields))
        for key, fields in order.rows
    )
    return ChangeBatch(order.offset, changes, order.is_end)
