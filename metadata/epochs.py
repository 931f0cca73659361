"""Check which epochs may follow each other.

No CRC covers a batch's epoch, so the order of the batches must confirm it.

**Invariant:** an epoch begins with its LeaderChange, and nowhere else. A batch with an altered
epoch differs from its neighbours, even if it is the last batch of the log.

Source: KIP-595; Kafka 4.3 KafkaRaftClient.onBecomeLeader.
"""

from __future__ import annotations

from typing import Final

EPOCH_MAX: Final = 2**31 - 1
"""No epoch can follow this one, so a log that reached it could no longer be written."""


def epoch_fault(epoch: int, before: int, *, begins_epoch: bool) -> str | None:
    """Return why a batch of ``epoch`` cannot follow a batch of epoch ``before``, or None if it can.

    Args:
        before: 0 at the beginning of a log.
        begins_epoch: the batch contains a LeaderChange.
    """
    if epoch < before:
        return f"epoch {epoch} follows the higher epoch {before}"
    if epoch == before:
        return f"epoch {epoch} has a second LeaderChange" if begins_epoch else None
    if not begins_epoch:
        return f"epoch {epoch} follows epoch {before} without a LeaderChange"
    if epoch == EPOCH_MAX:
        return f"epoch {epoch} is the highest possible, so none can follow it"
    return None
