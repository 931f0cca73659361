"""The authors of changes, from the audit logs that the query process can read."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from glob import escape
from typing import Final

from authorizerd.acl.audit.authors import Authors, Window
from authorizerd.acl.past import PastChange
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.audit.evidence import LOCAL_ZONE, AuditLogs, Limits, read_evidence
from authorizerd.daemon.audit.setup import STANDARD_STREAMS
from authorizerd.protocol.decisions.past_answers import FindAuthor

BYTES_MAX: Final = 64 * 1024 * 1024
SECONDS_MAX: Final = 3.0
"""Well below ``authorizerd.search.timeout.ms``: an answer without authors is better than none."""

_logger = logging.getLogger("authorizerd")


class AuthorReader:
    """Read the audit logs that the configuration names, and the daemon's own."""

    def __init__(self, configuration: Configuration) -> None:
        zone, own = configuration.history_audit_timezone, configuration.audit_log
        self._logs: Final = [AuditLogs(name, zone) for name in configuration.history_audit_files]
        if own is not None and own not in STANDARD_STREAMS:
            self._logs.append(AuditLogs(escape(own), LOCAL_ZONE))
        self._window: Final = Window(
            latency_ms=configuration.history_audit_latency_ms,
            skew_ms=configuration.history_audit_skew_ms,
        )

    def read(self, changes: Iterable[PastChange]) -> FindAuthor | None:
        """Return what finds the author of each change; None if there is no audit log.

        Blocks, for a few seconds at most.
        """
        since_ms = min((change.time_ms for change in changes), default=None)
        if not self._logs or since_ms is None:
            return None
        limits = Limits(since_ms=since_ms, bytes_max=BYTES_MAX, seconds_max=SECONDS_MAX)
        return Authors(read_evidence(self._logs, limits, self._window, _warn), self._window).find


def _warn(name: str, error: Exception) -> None:
    _logger.warning("%s: the audit log cannot be read: %s", name, error)
