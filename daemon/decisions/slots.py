"""Places for long answers: how many are under way at once, and how many of one caller.

**Invariant:** one caller never has all places, so others are served, too. Callers of a port that
trusts everyone cannot be told apart, so all of them together may have all places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final


class Slots:
    """A number of places.

    Args:
        total: how many there are.
        share: how many one caller may have.
    """

    def __init__(self, total: int, share: int) -> None:
        self._total: Final = total
        self._share: Final = share
        self._taken: Final[Counter[str | None]] = Counter()

    def take(self, principal: str | None) -> Callable[[], None] | None:
        """Take a place for a caller; None is one that cannot be told apart from others.

        Returns:
            What gives the place back, or None if there is no place.
        """
        share = self._total if principal is None else self._share
        if self._taken.total() >= self._total or self._taken[principal] >= share:
            return None
        self._taken[principal] += 1

        def give_back() -> None:
            self._taken[principal] -= 1
            if not self._taken[principal]:
                del self._taken[principal]

        return give_back
