"""The condition of a change."""

import re
from typing import Any

import pytest

from authorizerd.acl.errors import StateMovedError
from authorizerd.acl.expected_offset import ANY_OFFSET, OFFSET_MAX, ExpectedOffset, check_unchanged


@pytest.mark.parametrize(
    ("expected", "changed_at", "offset"), [(7, 7, 7), (7, 3, 9), (9, 7, 9), (0, -1, 5)]
)
def test_unchanged_acls_pass(expected: int, changed_at: int, offset: int) -> None:
    """The offset may have grown without a change of ACLs."""
    check_unchanged(expected, offset=offset, changed_at=changed_at)


def test_later_change_is_a_conflict() -> None:
    with pytest.raises(
        StateMovedError,
        match=re.escape("no change after offset 7, but the last one is at offset 8"),
    ):
        check_unchanged(7, offset=20, changed_at=8)


def test_offset_that_the_log_has_not_reached_is_a_conflict() -> None:
    """The sender has seen another log, or one that was longer."""
    with pytest.raises(StateMovedError, match=r"offset 21 is not known here: .* offset is 20"):
        check_unchanged(21, offset=20, changed_at=8)


def test_guard_knows_whether_it_has_a_condition() -> None:
    assert ExpectedOffset(0).is_conditional
    assert not ExpectedOffset(ANY_OFFSET).is_conditional


@pytest.mark.parametrize("offset", [-1, OFFSET_MAX + 1, "7", 7.0, None])
def test_written_offset_is_checked(offset: Any) -> None:  # noqa: ANN401 - by a custom authorizer
    """An answer could not be written with another value."""
    guard = ExpectedOffset(3)
    with pytest.raises((TypeError, ValueError)):
        guard.set_written(offset)
    assert guard.written_offset is None
    guard.set_written(OFFSET_MAX)
    assert guard.written_offset == OFFSET_MAX
