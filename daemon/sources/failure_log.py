"""Remember which failures of a cluster connection were logged.

**Invariant:** a failure of one kind is logged at most once in ``LOGGED_AGAIN_SECONDS``. The memory
is bounded, although servers choose their error codes and texts.
"""

from __future__ import annotations

from typing import Final

import trio

LOGGED_AGAIN_SECONDS: Final = 60.0
KINDS_MAX: Final = 100
"""Further kinds are not logged."""


class FailureLog:
    """Remember the kinds of the failures that were logged."""

    def __init__(self) -> None:
        self._kinds: Final[set[str]] = set()
        self._logged_at = 0.0

    def is_due(self, kind: str) -> bool:
        """Return True if a failure of this kind must be logged, and record it as logged.

        It is logged once, until contact is good again.
        """
        if kind in self._kinds or len(self._kinds) >= KINDS_MAX:
            return False
        self._kinds.add(kind)
        self._logged_at = trio.current_time()
        return True

    def is_due_again(self, kind: str) -> bool:
        """Like ``is_due``, for failures that are logged again even without good contact in
        between."""
        self.note_contact()
        return self.is_due(kind)

    def note_contact(self) -> None:
        """Note that contact is good: later failures are new."""
        if trio.current_time() - self._logged_at >= LOGGED_AGAIN_SECONDS:
            self._kinds.clear()
