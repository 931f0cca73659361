"""The condition of a request to change ACLs: that no ACL has changed after a log offset.

**Invariant:** a request whose condition may not hold changes nothing. An unknown offset, such as
one that this log has not reached, counts as a conflict.

Offsets are not compared for equality, because they also grow when only configs change.
"""

from __future__ import annotations

from operator import index
from typing import Final

from authorizerd.acl.errors import StateMovedError

ANY_OFFSET: Final = -1
"""The expected offset of a request without a condition."""
OFFSET_MAX: Final = 2**63 - 1


class ExpectedOffset:
    """The condition of one request, and where it was written.

    Args:
        expected_offset: the request is rejected if an ACL has changed after this log offset.
    """

    __slots__ = ("_written_offset", "expected_offset")

    def __init__(self, expected_offset: int) -> None:
        self.expected_offset: Final = expected_offset
        self._written_offset: int | None = None

    @property
    def is_conditional(self) -> bool:
        return self.expected_offset != ANY_OFFSET

    @property
    def written_offset(self) -> int | None:
        """The log offset of the state after the request.

        None until the request is applied, and also if it was rejected.
        """
        return self._written_offset

    def set_written(self, offset: int) -> None:
        """Note that the request is applied.

        Raises:
            TypeError: the offset is not an integer.
            ValueError: it is not an int64 of at least 0.
        """
        offset = index(offset)  # the caller may be a custom authorizer
        if not 0 <= offset <= OFFSET_MAX:
            raise ValueError(f"expected a log offset from 0 to 2**63-1, found {offset}")
        self._written_offset = offset


def check_unchanged(expected_offset: int, *, offset: int, changed_at: int) -> None:
    """Check that no ACL has changed after ``expected_offset``.

    Args:
        offset: the log offset of the present state.
        changed_at: that of the last change of ACLs, or a later one.

    Raises:
        StateMovedError: an ACL has changed, or the offset is not known here.
    """
    if expected_offset > offset:
        raise StateMovedError(
            f"The expected offset {expected_offset} is not known here: the newest offset is"
            f" {offset}. Nothing was changed."
        )
    if changed_at > expected_offset:
        raise StateMovedError(
            f"The ACLs have changed: expected no change after offset {expected_offset}, but the"
            f" last one is at offset {changed_at}. Nothing was changed."
        )
