"""Find out whether a broker's answers are current."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from authorizerd.daemon.sources.brokers.messages import Quorum

LAG_SECONDS: Final = 2.0
"""A broker that lacks what was committed this long ago is not current."""


@dataclass(slots=True)
class Lag:
    """Compare a broker's log with earlier high watermarks of the quorum.

    Attributes:
        taken: the high watermark at ``taken_at``, which is demanded later.
        demanded: the high watermark that the broker's log must have reached by now.
    """

    taken_at: float = 0.0
    taken: int = -1
    demanded: int = -1

    def is_current(self, quorum: Quorum, broker_id: int, now: float) -> bool:
        """Return True unless the broker lacks what was committed ``LAG_SECONDS`` ago."""
        if now - self.taken_at >= LAG_SECONDS:
            self.demanded, self.taken = self.taken, quorum.high_watermark
            self.taken_at = now
        return quorum.log_ends.get(broker_id, -1) >= self.demanded
