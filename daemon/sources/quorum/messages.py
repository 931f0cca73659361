"""The events that a follower's state machine gets, and the actions that it asks for.

The machine answers each event with a ``Reaction``: effects to carry out in order, then one request,
whose result is the next event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from authorizerd.kafka_client.address import Address
from authorizerd.protocol.kafka.fetch import FetchAnswer, FetchPosition, SnapshotAnswer
from authorizerd.protocol.kafka.quorum_messages import SnapshotId
from authorizerd.protocol.records.batch import RecordBatch


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The wait is over, or the task begins."""


@dataclass(frozen=True, slots=True)
class Connected:
    """A node answered ApiVersions and accepted us. ``fetch_version`` is the version to fetch in."""

    fetch_version: int


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """A connection failed or broke, or delivered something other than an answer.

    ``reason`` names the failure in metrics; ``text`` is for the log. ``is_silent`` is True if the
    node did not answer in time.
    """

    reason: str
    text: str
    is_silent: bool = False


@dataclass(frozen=True, slots=True)
class ClusterAnswered:
    """A node named its cluster's id. It is empty if the node does not report it."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class FetchAnswered:
    """A node answered a Fetch. ``batches`` are the complete batches of its records."""

    answer: FetchAnswer
    batches: Sequence[RecordBatch] = ()


@dataclass(frozen=True, slots=True)
class SnapshotAnswered:
    """A node answered a FetchSnapshot."""

    answer: SnapshotAnswer


@dataclass(frozen=True, slots=True)
class SnapshotApplied:
    """The fetched snapshot was verified and passed on."""


@dataclass(frozen=True, slots=True)
class SnapshotDamaged:
    """The fetched snapshot was unusable, and was removed."""

    text: str


Event = (
    TimePassed
    | Connected
    | ConnectionLost
    | ClusterAnswered
    | FetchAnswered
    | SnapshotAnswered
    | SnapshotApplied
    | SnapshotDamaged
)


@dataclass(frozen=True, slots=True)
class PassOn:
    """Apply committed batches, and save them. They continue the batches passed on before."""

    batches: tuple[RecordBatch, ...]


@dataclass(frozen=True, slots=True)
class BeginSnapshot:
    """Make room for a snapshot."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class AppendSnapshot:
    """Save the next piece of the snapshot."""

    data: bytes | bytearray


@dataclass(frozen=True, slots=True)
class AbandonSnapshot:
    """Forget the pieces of the snapshot."""


@dataclass(frozen=True, slots=True)
class ReportLoaded:
    """Everything that the quorum had committed when the daemon connected was passed on."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """Everything that the leader just reported as committed was passed on."""


@dataclass(frozen=True, slots=True)
class ReleaseBarriers:
    """Release barriers up to ``ticket``, once everything passed on so far is applied.

    ``leader`` is the node whose answer lets them pass.
    """

    ticket: int
    leader: Address


@dataclass(frozen=True, slots=True)
class CountFailure:
    """Count a failed exchange by ``reason``, and log ``text``."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection."""


@dataclass(frozen=True, slots=True)
class ReportFault:
    """Stop all decisions until an operator acts. ``offset`` is the last one passed on, or -1."""

    text: str
    offset: int


Effect = (
    PassOn
    | BeginSnapshot
    | AppendSnapshot
    | AbandonSnapshot
    | ReportLoaded
    | Confirm
    | ReleaseBarriers
    | CountFailure
    | Disconnect
    | ReportFault
)


@dataclass(frozen=True, slots=True)
class Connect:
    """Connect to a node: ``Connected`` or ``ConnectionLost`` follows."""

    address: Address


@dataclass(frozen=True, slots=True)
class AskCluster:
    """Ask the node for its cluster's id: ``ClusterAnswered`` follows."""


@dataclass(frozen=True, slots=True)
class SendFetch:
    """Send a Fetch: ``FetchAnswered`` follows."""

    position: FetchPosition
    max_wait_ms: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Probe:
    """A Fetch over another connection, for barriers up to ``ticket``."""

    ticket: int
    address: Address
    request: SendFetch


@dataclass(frozen=True, slots=True)
class SendFetchSnapshot:
    """Send a FetchSnapshot: ``SnapshotAnswered`` follows. ``position`` is in bytes."""

    snapshot: SnapshotId
    position: int
    leader_epoch: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class ApplySnapshot:
    """Verify the complete snapshot and pass it on.

    ``SnapshotApplied`` or ``SnapshotDamaged`` follows.
    """

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until the clock shows ``until``: ``TimePassed`` follows."""

    until: float


@dataclass(frozen=True, slots=True)
class Stop:
    """Do nothing from now on."""


Request = Connect | AskCluster | SendFetch | SendFetchSnapshot | ApplySnapshot | Wait | Stop


@dataclass(frozen=True, slots=True)
class Reaction:
    """The machine's answer to an event."""

    effects: tuple[Effect, ...]
    request: Request
