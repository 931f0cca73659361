"""The errors of following a quorum."""

from __future__ import annotations


class GarbageError(Exception):
    """No leader sends such an answer. It is ignored, and its connection is dropped."""


class PermanentFaultError(Exception):
    """The daemon cannot continue to follow until an operator acts. The text names the remedy."""


class RestoredClusterError(PermanentFaultError):
    """The cluster's log lacks records that it had committed before.

    Args:
        found: the contradiction to the daemon's records.
    """

    def __init__(self, found: str) -> None:
        super().__init__(
            f"{found}: the cluster was restored from a backup or formatted again. If this is "
            "intended, stop the daemon, run `authorizerd reset-copy --config FILE`, and start it "
            "again"
        )
