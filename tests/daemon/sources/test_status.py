"""The status of a source: its bounds."""

from __future__ import annotations

from authorizerd.config.follow.settings import SourceKind
from authorizerd.daemon.sources.status import OTHER_REASON, REASONS_MAX, SourceStatus


def test_reasons_of_errors_are_bounded() -> None:
    """Each is the label of a metric, and a server chooses its error code."""
    status = SourceStatus(SourceKind.QUORUM)
    for code in range(2 * REASONS_MAX):
        status.count_error(f"error {code}")
    status.count_error("error 1")
    assert len(status.errors) == REASONS_MAX + 1
    assert status.errors["error 1"] == 2
    assert status.errors.total() == 2 * REASONS_MAX + 1
    assert status.errors[OTHER_REASON] == REASONS_MAX + 1
