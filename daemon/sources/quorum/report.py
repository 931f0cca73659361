"""Report the source's contact: a status for metrics, and lines in the log (see ``FailureLog``)."""

from __future__ import annotations

import logging
from typing import Final

import trio

from authorizerd.config.follow.settings import CLUSTER_ID, FollowSettings, SourceKind
from authorizerd.daemon.sources.failure_log import FailureLog
from authorizerd.daemon.sources.quorum.machine import Machine
from authorizerd.daemon.sources.quorum.messages import CountFailure
from authorizerd.daemon.sources.remedies import WRONG_NODES, missing_right
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.kafka_client.address import Address
from authorizerd.protocol.kafka.error_codes import ErrorCode

_logger = logging.getLogger(__name__)


class ContactReport:
    """Keep ``status`` current."""

    def __init__(self, status: SourceStatus, settings: FollowSettings) -> None:
        self._status: Final = status
        self._user: Final = settings.username
        self._leader: tuple[Address, int] | None = None
        self._failures: Final = FailureLog()

    def count(self, failure: CountFailure) -> None:
        """Count a failed exchange."""
        reason, text = failure.reason, failure.text
        if reason == ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name:
            text = f"{text} {missing_right(SourceKind.QUORUM, self._user)}"
        elif reason == ErrorCode.MISMATCHED_ENDPOINT_TYPE.name:
            text = f"{text}; {WRONG_NODES[SourceKind.QUORUM][1]}"
        self._status.count_error(reason)
        self._status.last_error = text
        if self._failures.is_due(reason):
            _logger.warning("following the cluster, retrying: %s", text)

    def note_hidden_cluster(self, *, has_copy: bool) -> None:
        """Log that the controllers do not disclose the cluster's id to this principal.

        Args:
            has_copy: True if there is a copy, which might be another cluster's.
        """
        if has_copy:
            _logger.warning(
                "the cluster's id is not known, so nothing proves that the copy belongs to this "
                "cluster: set %s", CLUSTER_ID,
            )  # fmt: skip
        else:
            _logger.info("the cluster's id is not known, so it is not checked: set %s", CLUSTER_ID)

    def update(self, machine: Machine, high_watermark: int, read_offset: int) -> None:
        """Note the machine's state.

        Args:
            high_watermark: the last offset that is known to be committed.
            read_offset: the last offset that was passed on.
        """
        status = self._status
        status.cluster_id = machine.cluster_id or ""
        status.high_watermark, status.read_offset = high_watermark, read_offset
        leader, route = machine.contact.leader, machine.contact.route
        status.leader_id, status.leader_epoch = route.leader_id, route.epoch
        if read_offset >= high_watermark:
            status.lag_since = None
        elif status.lag_since is None:
            status.lag_since = trio.current_time()
        if leader is None:
            return
        self._failures.note_contact()
        if leader != self._leader:
            self._leader = leader
            _logger.info("following controller %d at %s in epoch %d", route.leader_id, *leader)
