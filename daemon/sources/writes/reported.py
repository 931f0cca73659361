"""Which warnings about changes were logged lately, so that callers cannot fill the log."""

from __future__ import annotations

from typing import Final

import trio

REPEAT_SECONDS: Final = 60.0
REASONS_MAX: Final = 100
"""Bound on the reasons that are remembered, since servers choose their error codes and texts."""


class Reported:
    """Remember for each reason when it was last logged."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}

    def is_due(self, reason: str) -> bool:
        """Return True if ``reason`` was not logged in the last minute, and note that it is now.

        Return False for further reasons while ``REASONS_MAX`` are remembered.
        """
        now = trio.current_time()
        if now - self._logged_at.get(reason, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return False
        if len(self._logged_at) >= REASONS_MAX:
            recent = {k: at for k, at in self._logged_at.items() if now - at < REPEAT_SECONDS}
            self._logged_at = recent
            if len(recent) >= REASONS_MAX:
                return False
        self._logged_at[reason] = now
        return True
