"""Places for pages and downloads: how many are under way at once, and how many of one visitor.

**Invariant:** one visitor never has all places, so others are served, too. Visitors of a port that
trusts everyone cannot be told apart, so all of them together may have all places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from authorizerd.daemon.decisions.callers import Caller

STRANGER: Final = ""
"""All visitors who are not logged in count as one."""


class Slots:
    """A number of places.

    Args:
        total: how many there are.
        share: how many one visitor may have.
    """

    def __init__(self, total: int, share: int) -> None:
        self._total: Final = total
        self._share: Final = share
        self._taken: Final[Counter[str | None]] = Counter()

    def take(self, caller: Caller | None) -> Callable[[], None] | None:
        """Take a place for a visitor; None is one who is not logged in.

        Returns:
            What gives the place back, or None if there is no place.
        """
        visitor = STRANGER if caller is None else caller.principal
        share = self._total if visitor is None else self._share
        if self._taken.total() >= self._total or self._taken[visitor] >= share:
            return None
        self._taken[visitor] += 1

        def give_back() -> None:
            self._taken[visitor] -= 1
            if not self._taken[visitor]:
                del self._taken[visitor]

        return give_back
