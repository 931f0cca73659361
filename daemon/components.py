"""Create the daemon's parts from its configuration and wire them together; run none of them.

**Invariant:** each part is created after its dependencies, and closed before them. Ports are
created elsewhere: ``endpoints`` binds them, and ``servers`` creates their servers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Final

import trio

from authorizerd.acl.model import Operation
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.authorizer import Authorizer, RequestContext
from authorizerd.actors.errors import UnfitChangeError
from authorizerd.actors.published import View
from authorizerd.actors.purgatory import Purgatory
from authorizerd.actors.record_applier import BATCHES_WAITING_MAX, Message, RecordApplier
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.config.configuration import Configuration
from authorizerd.config.dynamic import Layers
from authorizerd.config.tls_keys import is_http_ssl_key
from authorizerd.config.values import UnknownRelease
from authorizerd.daemon.audit.setup import open_audit
from authorizerd.daemon.authorizer_loader import choose_authorizer
from authorizerd.daemon.certificates import Certificates
from authorizerd.daemon.decisions.callers import new_callers
from authorizerd.daemon.decisions.route_file import RouteFile
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.kafka.permissions import Rights
from authorizerd.daemon.kafka.request_latency import RequestTimes
from authorizerd.daemon.origins.origin import Origin, SourceDependencies
from authorizerd.daemon.origins.own_log import OwnLogOrigin
from authorizerd.daemon.queries.watchers import new_watchers
from authorizerd.daemon.releases import new_judge
from authorizerd.daemon.settings import Settings
from authorizerd.daemon.telemetry.build import describe_version
from authorizerd.daemon.workers.pool import WorkerPool
from authorizerd.daemon.workers.query_pool import QueryPool
from authorizerd.image.cluster import ClusterImage
from authorizerd.metadata.meta_properties import MetaProperties
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.worker_feed import (
    Files,
)

_logger = logging.getLogger("authorizerd")


class DaemonServices:
    """The parts of one daemon; call ``close`` at the end.

    ``authorizer`` makes the decisions: ``standard``, or a plugin. ``workers``, ``audit`` and
    ``audit_log`` are None if they are not configured.
    """

    def __init__(
        self,
        configuration: Configuration,
        read_configuration: Callable[[], Configuration],
        properties: MetaProperties,
    ) -> None:
        """Open the log and the audit file, and create the authorizer.

        Args:
            configuration: names the log directory, which the caller has locked.
            read_configuration: blocks; called at each SIGHUP.
            properties: the properties of the log directory.

        Raises:
            MetadataLogError: the log does not exist.
            ConfigurationError: the tokens file or the routes file has an invalid line.
            StartError: the audit file, tokens file, routes file or authorizer is unusable.
        """
        self.configuration: Final = configuration
        self.properties: Final = properties
        feed, inbox = trio.open_memory_channel[Message](BATCHES_WAITING_MAX)
        self.watchers: Final = new_watchers(configuration, serves=configuration.workers == 1)
        # Only the daemon changes its own log, so its state cannot become stale.
        deadline = math.inf if configuration.follow is None else -math.inf
        self.applier: Final = RecordApplier(
            inbox,
            journal=self.watchers.journal,
            judge=new_judge(configuration),
            stops_if_newer=configuration.kafka_release_unknown is UnknownRelease.STOP,
            on_misfit=None if configuration.follow is None else self._stop_deciding,
            deadline=deadline,
        )
        snapshot = self.applier.snapshot
        self.query_process: Final = QueryPool(
            feed,
            self.applier.applied,
            self.applier.cluster,
            configuration=configuration.file_values,
            files=Files,
            timeout_ms=configuration.worker_timeout_ms,
        )
        feed = self.query_process.feed
        self.workers: Final = _new_worker_pool(
            configuration,
            feed,
            self.applier.applied,
            self.applier.cluster,
            self._files,
            deadline,
        )
        self.feed: Final = feed if self.workers is None else self.workers.feed
        self.audit: Final = open_audit(configuration)
        self.audit_log: Final = None if self.audit is None else self.audit.log
        self.origin: Final = self._new_origin()
        self.standard: Final = StandardAuthorizer(
            snapshot,
            self.origin.updates,
            auditor=None if self.audit is None else self.audit.auditor,
            why_no_snapshot=lambda: self.applier.not_ready_reason,
        )
        self.authorizer: Final = choose_authorizer(
            configuration.authorizer_class_name, self.standard, snapshot
        )
        # A plugin may delegate to the standard authorizer, which must therefore be configured as
        # well.
        for authorizer in dict.fromkeys((self.standard, self.authorizer)):
            _configure(authorizer, configuration)
        self.settings: Final = Settings(
            configuration,
            self.applier.cluster,
            self.authorizer,
            standard=self.standard,
            read=read_configuration,
        )
        self.certificates: Final = Certificates(configuration)
        self.certificates.prepare_reload(configuration)()
        self.callers: Final = new_callers(configuration)
        self.certificates.on_client_auth(self.callers.require_credentials)
        self.settings.subscribe_configuration(self.certificates.prepare_reload)
        self.settings.subscribe_stores(self.certificates.keys, self._prepare_stores)
        self.callers.prepare_reload()()  # the first load is a reload that is applied at once
        self.settings.subscribe_file(self.callers.prepare_reload)
        self.settings.subscribe(self.callers.reconfigure)
        self.routes: Final = RouteFile(configuration.routes_file)
        self.routes.prepare_reload()()
        self.settings.subscribe_file(self.routes.prepare_reload)
        if self.audit is not None:
            self.settings.subscribe_file(self.audit.prepare_reload)
        if self.workers is not None:
            self.settings.subscribe_file(self.workers.prepare_reload)
        self.purgatory: Final = Purgatory(configuration.update_timeout_ms)
        self.times: Final = RequestTimes()
        _load_ahead(configuration)

    def _new_origin(self) -> Origin:
        workers = self.workers
        dependencies = SourceDependencies(
            feed=self.feed,
            applier=self.applier,
            applied_everywhere=_applied_here if workers is None else workers.applied_everywhere,
            on_written=None if self.audit is None else self.audit.auditor.record_written,
        )
        configuration = self.configuration
        if configuration.follow is None:
            return OwnLogOrigin(configuration, self.properties.cluster_id, DISK, dependencies)
        # Imported only here: most daemons do not follow a cluster, and would start more slowly.
        from authorizerd.daemon.origins.followed_cluster import FollowedCluster

        return FollowedCluster(
            configuration,
            configuration.follow,
            dependencies,
            is_super_user=lambda principal: principal in self.settings.super_users,
            may_alter=self._may_alter,
            timeout_ms=lambda: self.purgatory.timeout_ms,
        )

    def _may_alter(self, caller: RequestContext) -> bool:
        """Return True if the caller may change ACLs now. The audit log has the earlier check."""
        return Rights(self.authorizer).may(caller, Operation.ALTER, log_if_allowed=False)

    def _stop_deciding(self, error: UnfitChangeError) -> None:
        """Note that the cluster's log contradicts itself. The applier has stopped deciding."""
        _logger.error("decisions stop: %s", error)
        if self.origin.source.status is not None:
            self.origin.source.status.fail(str(error), error.offset)
        self.query_process.fail()
        if self.workers is not None:
            self.workers.fail()

    def _prepare_stores(
        self, values: Mapping[str, str], changed: frozenset[str]
    ) -> Callable[[], None]:
        """Return a function that applies the stores that a client has set, also in workers."""
        apply = self.certificates.prepare_change(values, changed)

        def apply_everywhere() -> None:
            apply()
            if self.workers is not None and any(map(is_http_ssl_key, changed)):
                self.workers.prepare_reload()()

        return apply_everywhere

    def _files(self) -> Files:
        """Return the loaded content of the files that the configuration names."""
        return Files(
            self.callers.text,
            b"" if self.audit is None else self.audit.secret,
            self.certificates.stores,
            self.routes.text,
        )

    def close(self) -> None:
        """Close the authorizer and the files; mark an undamaged log as cleanly shut down."""
        for authorizer in dict.fromkeys((self.authorizer, self.standard)):
            authorizer.close()
        self.origin.close()
        if self.audit is not None:
            self.audit.close()


def _load_ahead(configuration: Configuration) -> None:
    """Fill caches: their first use takes longer than a step of the event loop may take."""
    describe_version()
    if configuration.console:
        # Imported only here: most daemons have no console, and would start more slowly.
        from authorizerd.daemon.console.setup import load_console

        load_console()


async def _applied_here() -> None:
    """Return at once: no other process makes decisions."""


def _new_worker_pool(
    configuration: Configuration,
    applier: trio.MemorySendChannel[Message],
    snapshot: View[AclSnapshot | None],
    image: View[ClusterImage],
    files: Callable[[], Files],
    deadline: float,
) -> WorkerPool | None:
    """Return the worker pool, or None if the daemon makes all decisions itself."""
    if configuration.workers == 1:
        return None
    return WorkerPool(
        configuration.workers,
        applier,
        snapshot,
        image,
        configuration=configuration.file_values,
        files=files,
        timeout_ms=configuration.worker_timeout_ms,
        deadline=deadline,
    )


def _configure(authorizer: Authorizer, configuration: Configuration) -> None:
    """Pass the authorizer its settings.

    Raises:
        StartError: the authorizer rejects them.
    """
    try:
        authorizer.configure(Layers(file=configuration.file_values).merge())
    except BaseException as error:
        reason = f"{type(error).__name__}: {error}"
        raise StartError(f"{configuration.authorizer_class_name}: {reason}") from error
