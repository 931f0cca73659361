"""Which time to believe for the begin and the end of grants.

The active controller's clock counts, because all who end grants can read it. A reading is believed
at once if the own clock agrees, and otherwise only after the controller's clock has run steadily
for a while, by a clock that nobody can set. So a clock that is set wrongly for a short time ends no
grant early, and a wrong own clock delays nothing by more than ``STEADY_SECONDS``.

**Invariant:** the believed time is never later than both clocks.
"""

from __future__ import annotations

from typing import Final

AGREE_MS: Final = 5_000
"""Clocks agree if they differ by no more than this."""
STEADY_SECONDS: Final = 60.0
"""How long a clock that no other confirms must run without a step."""
GAP_SECONDS: Final = 30.0
"""After a longer pause between two readings, nobody knows what the clock did meanwhile."""


class Clocks:
    """Compares successive readings. Not for several tasks at once."""

    def __init__(self) -> None:
        self._steady_since_s: float | None = None
        self._lead_ms = 0.0
        self._read_s = 0.0

    def read(self, reference_ms: int | None, own_ms: int, boot_s: float) -> int | None:
        """Return the time in milliseconds since 1970, or None if none can be believed yet.

        Args:
            reference_ms: the active controller's clock; None if this process is the controller.
            own_ms: this machine's clock.
            boot_s: this machine's time since it was started, which no step changes.
        """
        now_ms = own_ms if reference_ms is None else reference_ms
        lead_ms = now_ms - boot_s * 1000
        since_s, gap_s, self._read_s = self._steady_since_s, boot_s - self._read_s, boot_s
        is_unknown = since_s is None or gap_s > GAP_SECONDS
        if since_s is None or is_unknown or abs(lead_ms - self._lead_ms) > AGREE_MS:
            # Compared with the first reading after a step, so slow drifts count as steps as well.
            self._steady_since_s, self._lead_ms = boot_s, lead_ms
            since_s = boot_s
        if reference_ms is not None and abs(reference_ms - own_ms) <= AGREE_MS:
            return min(reference_ms, own_ms)
        return now_ms if boot_s - since_s >= STEADY_SECONDS else None
