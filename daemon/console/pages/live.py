"""The page *Live*: decisions per second, denials, lag, overload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import trio

from authorizerd.actors.daemon_authorizer import DecisionCounts
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.audit.setup import STANDARD_STREAMS
from authorizerd.daemon.console.denials import Denials, read_denials
from authorizerd.daemon.console.hour import show_hour
from authorizerd.daemon.console.samples import Samples
from authorizerd.daemon.console.visits import Shown, Visit
from authorizerd.daemon.decisions.callers import Caller
from authorizerd.daemon.errors import ForbiddenError
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.daemon.process.utc_time import now_ms
from authorizerd.daemon.telemetry.activity import Activity
from authorizerd.daemon.telemetry.metric_sources import MetricSources, Scrape
from authorizerd.protocol.decisions.acl_filters import check_names
from authorizerd.protocol.http.rights import DENIALS

_RESULTS: Final = tuple(field.name for field in fields(DecisionCounts))


class LivePage:
    """Show the daemon's current activity.

    The numbers are those of /metrics. The denials are read from the audit log's file. Not everyone
    on the machine may read it, so only visitors who log in and may read ACLs see denials.
    """

    def __init__(
        self, configuration: Configuration, sources: MetricSources, activity: Activity
    ) -> None:
        self._sources: Final = sources
        self._activity: Final = activity
        target = configuration.audit_log
        self._audit_file: Final = (
            None if target is None or target in STANDARD_STREAMS else Path(target)
        )
        self._samples: Final = Samples(trio.current_time())

    async def __call__(self, visit: Visit) -> Shown:
        """Show the page."""
        check_names(dict(visit.parameters), ())
        sources, now = self._sources, trio.current_time()
        scrape = Scrape(sources)
        decisions, ports = scrape.decisions, scrape.servers
        servers = {**ports["http"], **ports["stream"], **ports["kafka"]}
        refused = {name: each.requests_refused for name, each in servers.items()}
        rates = self._samples.measure(now, {**_flatten(decisions), **refused})
        status = sources.origin.source.status
        denials, no_denials = await self._find_denials(visit.caller)
        hour = await show_hour(self._activity, now_ms())
        applier = sources.applier.statistics()
        contact = None if status is None or status.contact_time is None else status.contact_time
        return Shown(
            template="live.html.jinja",
            context={
                **hour,
                "seconds": rates.seconds,
                "rates": rates.by_name,
                "decisions": decisions,
                "results": _RESULTS,
                "total_rate": {
                    result: sum(rates.by_name[f"{surface} {result}"] for surface in decisions)
                    for result in _RESULTS
                },
                "refused": refused,
                "connections": {name: each.connections_open for name, each in servers.items()},
                "offset": applier.offset,
                "high_watermark": sources.origin.source.high_watermark,
                "batches_waiting": applier.batches_waiting,
                "is_follower": status is not None,
                "contact_seconds": None if contact is None else now - contact,
                "is_stale": status is not None and status.is_stale,
                "purgatory_requests": sources.purgatory.requests_waiting,
                "updates_waiting": sources.origin.updates.statistics.requests_waiting,
                "workers": None if sources.workers is None else sources.workers.listening,
                "workers_offset": None if sources.workers is None else sources.workers.offset,
                "denials": denials,
                "no_denials": no_denials,
            },
        )

    async def _find_denials(self, caller: Caller) -> tuple[Denials | None, str]:
        """Return the latest denials, or the reason why none can be shown."""
        if self._audit_file is None:
            return None, "Set authorizerd.audit.log to a file to see denials here."
        try:
            caller.check(DENIALS)
        except ForbiddenError as error:
            return None, f"{error}."
        try:
            return await run_in_thread(read_denials, self._audit_file), ""
        except OSError as error:
            reason = error.strerror or "it is not a file"
            return None, f"The audit log's file cannot be read: {reason}."


def _flatten(decisions: Mapping[str, Any]) -> dict[str, int]:
    return {
        f"{surface} {result}": getattr(counts, result)
        for surface, counts in decisions.items()
        for result in _RESULTS
    }
