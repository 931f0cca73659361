"""The feed between the daemon and one of its workers, without a socket: orders down, reports up.

**Invariant:** a worker executes its orders in sequence, and reports each one once it is done. An
order may take several frames, all with its number. Frames are short, so that reading one does not
block either end.

Each frame is a 4-byte big-endian size and one msgpack array. Both ends are the same version of the
same program, so an invalid frame is a defect, and ends the worker.
"""

from __future__ import annotations

import math
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from authorizerd.acl.model import Acl
from authorizerd.acl.text.decoding_errors import DECODING_ERRORS, describe_decoding_error
from authorizerd.protocol.framing import Frames, frame

FEED_FRAME_BYTES_MAX: Final = 64 * 1024 * 1024  # a configuration and a tokens file fit easily

T = TypeVar("T")

Address: TypeAlias = tuple[int, str, int, int, int]
"""A socket's family, and its host, port, flow and scope. The last two are 0 except for IPv6."""
Row: TypeAlias = tuple[bytes, Acl | None]
"""An ACL's id, and the added ACL, or None for a removed one."""
TopicRow: TypeAlias = tuple[bytes, str | None]
"""A topic's id, and the name of an added topic, or None for a removed one."""
ReleaseRow: TypeAlias = tuple[str, tuple[int, ...]]
"""A change that may affect by which rules ACLs are judged: its name, and its numbers."""


class WorkerAddress(msgspec.Struct, array_like=True, frozen=True):
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
    """The first order. ``configuration`` has the keys that the daemon was started with, as text.

    ``audit_secret`` and ``stores`` are as in ``Files``. ``audit_turns`` is the descriptor of the
    lock that processes hold while they write audit lines. ``page_secret`` is the secret of
    ``PageTokens``. ``questions`` is the descriptor of the socket on which a worker asks the query
    process.
    """

    number: int
    configuration: dict[str, str]
    places: tuple[WorkerAddress, ...] = ()
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
    ``releases`` has the changes that may affect by which rules ACLs are judged.
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
    names in audit lines. ``stores`` is TLS of the decision ports, or None. ``routes`` is the text
    of the routes file, or None.
    """

    tokens: str | None = None
    audit_secret: bytes = b""
    stores: Stores | None = None
    routes: str | None = None

    def __repr__(self) -> str:
        """Return a text without the contents, safe for logs."""
        return "Files()"


class TakeFiles(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """Use the contents of these files, and reopen the audit log's file."""

    number: int
    files: Files


class Report(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """Report the counters, and keep deciding until ``deadline``, a boot-clock time.

    The deadline applies to the state after all earlier orders, and to the worker's lease.
    """

    number: int
    deadline: float = math.inf


class Listen(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """Accept connections."""

    number: int


class Drain(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """Accept no more connections, answer the pending requests, and end."""

    number: int


class StopDecisions(msgspec.Struct, array_like=True, frozen=True, tag=8):
    """From now on, answer only super users, and give others the reason."""

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
    """Reads the messages of the feed one by one."""

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
    """Return a worker's reader of its feed."""
    decoder: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
    return FeedReader(decoder)


def report_reader() -> FeedReader[Done]:
    """Return the daemon's reader of a worker's reports."""
    return FeedReader(msgspec.msgpack.Decoder(Done))


def encode_message(message: Order | Done) -> bytes:
    """Return the frame of one message."""
    return frame(_encode(message))
