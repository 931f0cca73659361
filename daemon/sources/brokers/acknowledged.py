"""Changes that a broker must show: those acknowledged through this daemon, and committed ones."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from authorizerd.daemon.sources.brokers.messages import Quorum

KEPT_SECONDS: Final = 60.0
"""After this time, a listing without the change is believed: another client has undone it."""

LAG_SECONDS: Final = 2.0
"""A broker is not current if it lacks a change that was committed this long ago."""


@dataclass(slots=True)
class _Change:
    """An acknowledged change.

    Attributes:
        made_at: the time of the acknowledgement.
        high_watermark: a high watermark of the quorum that includes the change; None until known.
        covered_at: listings requested from then on include the change, or whatever undid it.
    """

    made_at: float
    high_watermark: int | None = None
    covered_at: float | None = None

    def is_covered(self, asked: float) -> bool:
        return self.covered_at is not None and self.covered_at <= asked


class Acknowledged:
    """The changes that are still expected, by the keys of their barriers, oldest first."""

    def __init__(self) -> None:
        self._changes: dict[int, _Change] = {}
        self._forgotten_high_watermark = -1

    def __len__(self) -> int:
        """Return the number of expected changes."""
        return len(self._changes)

    @property
    def high_watermark(self) -> int:
        """The high watermark at which a broker has all known changes; or -1."""
        known = (change.high_watermark or -1 for change in self._changes.values())
        return max((self._forgotten_high_watermark, *known))

    def add(self, key: int, now: float) -> None:
        """Expect a change from now on."""
        self._changes[key] = _Change(now)

    def forget_old(self, now: float) -> None:
        """Forget changes that later listings need not show, for example while every listing fails.

        A new broker still needs the high watermark that includes them.
        """
        while self._changes:
            key, oldest = next(iter(self._changes.items()))
            if now < oldest.made_at + KEPT_SECONDS:
                break
            forgotten = oldest.high_watermark or -1
            self._forgotten_high_watermark = max(self._forgotten_high_watermark, forgotten)
            del self._changes[key]

    def note_commit(self, high_watermark: int, asked: float) -> None:
        """Note a high watermark that was requested at ``asked``, after these changes."""
        for change in self._changes.values():
            if change.high_watermark is None and change.made_at <= asked:
                change.high_watermark = high_watermark

    def note_applied(self, log_end: int, since: float) -> None:
        """Note that from ``since`` on, the broker's answers include everything below
        ``log_end``."""
        for change in self._changes.values():
            if change.high_watermark is not None and change.high_watermark <= log_end:
                change.covered_at = (
                    since if change.covered_at is None else min(change.covered_at, since)
                )

    def restart(self) -> None:
        """Forget what was applied: from now on, a different broker answers."""
        for change in self._changes.values():
            change.covered_at = None

    def count_lacking(self, shown: Collection[int], asked: float) -> int:
        """Return the number of changes missing from a listing that was requested at ``asked``."""
        return sum(
            each.made_at <= asked < each.made_at + KEPT_SECONDS
            and key not in shown
            and not each.is_covered(asked)
            for key, each in self._changes.items()
        )

    def find_shown(self, shown: Collection[int], asked: float) -> frozenset[int]:
        """Return the changes included in a listing that was requested at ``asked``."""
        return frozenset(
            key
            for key, each in self._changes.items()
            if key in shown or (each.made_at <= asked and each.is_covered(asked))
        )

    def remove(self, shown: Collection[int], asked: float) -> None:
        """Stop expecting these changes, and those that are too old."""
        self._changes = {
            key: each
            for key, each in self._changes.items()
            if key not in shown and asked < each.made_at + KEPT_SECONDS
        }
        self._forgotten_high_watermark = -1


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
