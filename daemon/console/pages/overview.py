"""The first page: whether the daemon is ready, and which ACLs and rules it uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from authorizerd.config.configuration import Configuration
from authorizerd.config.dynamic import Layers
from authorizerd.daemon.console.cluster import describe_super_users
from authorizerd.daemon.console.visits import Shown, Visit
from authorizerd.daemon.telemetry.build import describe_version
from authorizerd.daemon.telemetry.metric_sources import MetricSources
from authorizerd.daemon.telemetry.readiness import Readiness


class OverviewPage:
    """Show the daemon's state, which the admin port also shows as /readyz and /metrics."""

    def __init__(
        self,
        configuration: Configuration,
        readiness: Readiness,
        sources: MetricSources,
        addresses: Mapping[str, str],
        layers: Callable[[], Layers],
    ) -> None:
        self._configuration: Final = configuration
        self._readiness: Final = readiness
        self._sources: Final = sources
        self._addresses: Final = addresses
        self._layers: Final = layers
        self._version: Final = describe_version()

    async def __call__(self, visit: Visit) -> Shown:
        """Show the page."""
        sources, configuration = self._sources, self._configuration
        applier = sources.applier.statistics()
        gate = sources.gate
        follow = configuration.follow
        return Shown(
            template="overview.html.jinja",
            context={
                "is_ready": self._readiness.is_ready,
                "readiness": self._readiness.text,
                "acls": sources.authorizer.acl_count(),
                "offset": applier.offset,
                "high_watermark": sources.origin.source.high_watermark,
                "origin": None if follow is None else follow.kind.value,
                "authorizer": configuration.authorizer_class_name,
                "release_reason": sources.applier.release.newest.reason,
                "super_users": describe_super_users(sources, self._layers, visit.caller),
                "node_id": configuration.node_id,
                "processes": configuration.workers,
                "version": self._version,
                "endpoints": [
                    (name, self._addresses.get(name, ""), gate.is_open(name))
                    for name in sorted(gate.endpoints)
                ],
            },
        )
