"""The daemon's readiness, as reported on the admin and metrics ports and to the service manager.

**Invariant:** the daemon is ready once the ACLs are loaded, every endpoint is open, and the workers
listen. It is not ready while it refuses every decision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from authorizerd.acl.explanation.words import count_of
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.actors.auditor import NOT_WRITTEN
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer
from authorizerd.actors.listener_gate import ListenerGate
from authorizerd.actors.record_applier import RecordApplier
from authorizerd.daemon.sources.source import Source
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.daemon.workers.pool import WorkerPool

SHOWN_MAX: Final = 500
"""The maximum length of an error, since servers choose its text."""


class Readiness:
    """Report what the daemon is still waiting for.

    Args:
        authorizer: decides for the surfaces of this process.
        is_listening: returns True once every endpoint of this process listens.
        workers: None if the daemon makes all decisions itself.
    """

    def __init__(
        self,
        applier: RecordApplier,
        gate: ListenerGate,
        source: Source,
        authorizer: DaemonAuthorizer,
        is_listening: Callable[[], bool],
        workers: WorkerPool | None = None,
    ) -> None:
        self._applier: Final = applier
        self._gate: Final = gate
        self._source: Final = source
        self._authorizer: Final = authorizer
        self._is_listening: Final = is_listening
        self._workers: Final = workers

    @property
    def is_loaded(self) -> bool:
        return self._applier.snapshot.newest is not None

    @property
    def is_ready(self) -> bool:
        return not self._describe_wait()

    @property
    def text(self) -> str:
        """One line: what the daemon waits for, or the number of ACLs and their log offset.

        It reveals no secret, but may name servers of the followed cluster and the daemon's
        principal.
        """
        statistics, status = self._applier.statistics(), self._source.status
        contact = "" if status is None else f", {_describe_contact(status)}"
        wait = self._describe_wait()
        if wait and not self.is_loaded and status is not None and status.last_error:
            return f"{wait}; the last error: {_shorten(status.last_error)}"
        acls = count_of(statistics.acls, "ACL")
        if wait:
            return wait
        release = self._applier.release.newest
        return (
            f"ready: {acls} at log offset {statistics.offset}{contact}; judged by the rules of"
            f" Kafka {release.rules}: {_shorten(release.reason)}"
        )

    @property
    def public_text(self) -> str:
        """The same line for the public: without the last error and the reason of a fault."""
        return self._describe_wait(is_public=True) or self.text

    def _describe_wait(self, *, is_public: bool = False) -> str:
        """Return what the daemon waits for; empty if it is ready."""
        if not self.is_loaded:
            return self._describe_loading(is_public=is_public)
        if refusal := self._find_refusal():
            return f"decisions are refused: {_shorten_refusal(refusal, is_public=is_public)}"
        if not self._gate.is_all_open:
            return "waiting for the authorizer to start every endpoint"
        if not self._is_listening():
            return "waiting for every endpoint to listen"
        if self._workers is not None and not self._workers.is_ready:
            return f"waiting for workers: {self._workers.listening} listen"
        return ""

    def _find_refusal(self) -> str:
        return self._authorizer.refusal or ("" if self._workers is None else self._workers.refusal)

    def _describe_loading(self, *, is_public: bool) -> str:
        status = self._source.status
        is_broken = status is not None and (status.fault or status.is_stale)
        if self._applier.has_stopped_for_newer and not is_broken:
            newer = self._applier.release.newest.newer
            return (
                f"decisions have stopped: {_shorten(newer)}. Upgrade the daemon, or set"
                " authorizerd.kafka.release.unknown=warn"
            )
        if status is None:
            return f"loading: read up to log offset {self._source.high_watermark}"
        if status.fault:
            place = "" if status.fault_offset < 0 else f" at log offset {status.fault_offset}"
            # The fault may name ACLs, users and servers, and the cluster chooses part of its text.
            fault = "the log says why" if is_public else _shorten(status.fault)
            return f"decisions have stopped{place}: {fault}"
        if status.is_stale:
            return f"decisions have stopped: {_describe_contact(status)}"
        if status.contact_time is None:
            return f"waiting for the cluster: {_describe_contact(status)}"
        return (
            f"loading: read up to log offset {status.read_offset} of {self._source.high_watermark}"
        )


def _shorten_refusal(refusal: str, *, is_public: bool) -> str:
    # A custom authorizer, or a cluster, chooses the text of other reasons.
    if is_public and refusal != NOT_WRITTEN:
        return "the admin port says why"
    return _shorten(refusal)


def _shorten(error: str) -> str:
    """Return the beginning of an error as one line."""
    return escape_unprintable(error[:SHOWN_MAX])


def _describe_contact(status: SourceStatus) -> str:
    age = status.contact_age
    return "no contact so far" if age is None else f"the last contact was {age:.0f} s ago"
