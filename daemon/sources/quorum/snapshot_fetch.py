"""A snapshot fetched in pieces, which need not end at a batch boundary.

Source: KIP-630; Kafka 4.3 KafkaRaftClient.handleFetchSnapshotResponse.
"""

from __future__ import annotations

from typing import Final

from authorizerd.daemon.sources.quorum.errors import GarbageError
from authorizerd.daemon.sources.quorum.messages import SendFetchSnapshot
from authorizerd.protocol.kafka.fetch import SnapshotAnswer
from authorizerd.protocol.kafka.quorum_messages import SnapshotId


class SnapshotFetch:
    """Checks that the pieces of a snapshot follow each other.

    Args:
        leader_epoch: the epoch of the leader that offered the snapshot.
    """

    def __init__(self, snapshot: SnapshotId, leader_epoch: int) -> None:
        self.snapshot: Final = snapshot
        self.leader_epoch: Final = leader_epoch
        self._position = 0
        self._size: int | None = None

    @property
    def is_complete(self) -> bool:
        return self._position == self._size

    def request(self, bytes_max: int) -> SendFetchSnapshot:
        """Return the request for the next piece."""
        return SendFetchSnapshot(self.snapshot, self._position, self.leader_epoch, bytes_max)

    def add(self, answer: SnapshotAnswer) -> None:
        """Add the next piece.

        Raises:
            GarbageError: it is not the next piece of this snapshot.
        """
        if answer.snapshot != self.snapshot:
            raise GarbageError(f"expected {self.snapshot}, found {answer.snapshot}")
        if answer.position != self._position:
            raise GarbageError(
                f"expected the piece at byte {self._position}, found the piece at {answer.position}"
            )
        if self._size not in (None, answer.size):
            raise GarbageError(f"expected a size of {self._size} bytes, found {answer.size}")
        end = self._position + len(answer.data)
        if not answer.data or end > answer.size:
            raise GarbageError(
                f"{len(answer.data)} bytes at byte {self._position} of {answer.size} bytes"
            )
        self._position, self._size = end, answer.size
