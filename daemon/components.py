"""Create the daemon's parts from its configuration and wire them together; run none of them.

**Invariant:** each part is created after the parts that it holds, and closed before them. Ports are
created elsewhere: ``endpoints`` binds them, and ``servers`` creates their servers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import trio

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.authorizer import Authorizer
from authorizerd.actors.published import View
from authorizerd.actors.purgatory import Purgatory
from authorizerd.actors.record_applier import Message, RecordApplier
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.actors.update_queue import UpdateQueue
from authorizerd.config.configuration import Configuration
from authorizerd.config.dynamic import Layers
from authorizerd.config.ssl_key_names import is_http_ssl_key
from authorizerd.daemon.audit.setup import open_audit
from authorizerd.daemon.authorizer_loader import choose_authorizer
from authorizerd.daemon.certificates import Certificates
from authorizerd.daemon.decisions.callers import new_callers
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.gc_control import Collector
from authorizerd.daemon.kafka.quorum import Leadership
from authorizerd.daemon.kafka.request_latency import RequestTimes
from authorizerd.daemon.settings import Settings
from authorizerd.daemon.sources.own_log_reader import LocalLogSource
from authorizerd.daemon.sources.own_log_writer import Checkpointer, CheckpointPolicy, OwnLog
from authorizerd.daemon.utc_time import now_ms
from authorizerd.daemon.workers.pool import WorkerPool
from authorizerd.image.cluster import ClusterImage
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.storage import DISK, Storage
from authorizerd.metadata.writer import LogWriter
from authorizerd.protocol.worker_feed import Files

ACL_ID_BYTES: Final = 16
BATCHES_WAITING_MAX: Final = 16

_logger = logging.getLogger("authorizerd")


class Parts:
    """The parts of one daemon; call ``close`` at the end.

    ``authorizer`` makes the decisions: ``standard``, unless another class is plugged in.
    ``workers``, ``audit`` and ``audit_log`` are None if they are not configured.
    """

    def __init__(self, read_configuration: Callable[[], Configuration]) -> None:
        """Open the log and the audit file, and create the authorizer.

        Args:
            read_configuration: blocks; called again at each SIGHUP.

        Raises:
            MetadataLogError: the log does not exist.
            ConfigurationError: the tokens file has an invalid line.
            StartError: the audit file, tokens file or authorizer is unusable.
        """
        configuration = read_configuration()
        self.configuration: Final = configuration
        self.log: Final = Log(configuration, DISK)
        self.collector: Final = Collector()
        feed, inbox = trio.open_memory_channel[Message](BATCHES_WAITING_MAX)
        self.applier: Final = RecordApplier(inbox, collect_garbage=self.collector.collect_garbage)
        snapshot, image = self.applier.snapshot, self.applier.cluster
        self.workers: Final = _new_worker_pool(
            configuration, feed, self.applier.applied, self._files
        )
        self.feed: Final = feed if self.workers is None else self.workers.feed
        self.audit: Final = open_audit(configuration)
        self.audit_log: Final = None if self.audit is None else self.audit.log
        self.updates: Final = _new_update_queue(
            configuration, self.log, self.feed, snapshot, image, self.workers, self.collector
        )
        self.checkpointer: Final = self.log.new_checkpointer(snapshot, image)
        self.standard: Final = StandardAuthorizer(
            snapshot, self.updates, None if self.audit is None else self.audit.auditor
        )
        self.authorizer: Final = choose_authorizer(
            configuration.authorizer_class_name, self.standard, snapshot
        )
        # A plugged-in authorizer may delegate to the standard one, which must be configured too.
        for authorizer in dict.fromkeys((self.standard, self.authorizer)):
            _configure(authorizer, configuration)
        self.settings: Final = Settings(
            configuration,
            image,
            self.authorizer,
            standard=self.standard,
            read=read_configuration,
        )
        self.certificates: Final = Certificates(configuration)
        self.certificates.prepare_reload(configuration)()
        self.callers: Final = new_callers(configuration, self.authorizer)
        self.certificates.on_client_auth(self.callers.require_credentials)
        self.settings.follow_configuration(self.certificates.prepare_reload)
        self.settings.follow_stores(self.certificates.keys, self._prepare_stores)
        self.callers.prepare_reload()()  # the first load is a reload that is applied at once
        self.settings.follow_file(self.callers.prepare_reload)
        if self.audit is not None:
            self.settings.follow_file(self.audit.prepare_reload)
        if self.workers is not None:
            self.settings.follow_file(self.workers.prepare_reload)
        self.purgatory: Final = Purgatory(configuration.reloadable.update_timeout_ms)
        self.times: Final = RequestTimes()

    def _prepare_stores(
        self, values: Mapping[str, str], changed: frozenset[str]
    ) -> Callable[[], None]:
        """Return a function that applies the stores that a client has set, in workers too."""
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
        )

    def close(self) -> None:
        """Close the authorizer and the files; mark an undamaged log as cleanly shut down."""
        for authorizer in dict.fromkeys((self.authorizer, self.standard)):
            authorizer.close()
        try:
            self.log.writer.close()
        except OSError as error:
            _logger.warning("the clean shutdown could not be marked: %s", error)
        if self.audit is not None:
            self.audit.close()


class Log:
    """The parts of the daemon's own log: reader, writer, checkpoints."""

    def __init__(self, configuration: Configuration, storage: Storage) -> None:
        """Open the log.

        Raises:
            LogDirectoryError: the log does not exist.
        """
        log_dir = Path(configuration.metadata_log_dir)
        self.writer: Final = LogWriter(
            log_dir,
            storage=storage,
            segment_bytes_max=configuration.metadata_log_segment_bytes,
            now_ms=now_ms,
        )
        self.own: Final = OwnLog(self.writer, node_id=configuration.node_id)
        self.source: Final = LocalLogSource(MetadataLog.open(log_dir, storage), self.own.begin)
        self._configuration = configuration
        self._storage = storage

    def leadership(self, snapshot: AclSnapshot | None) -> Leadership | None:
        """Return the log's leadership as clients see it, None if ``snapshot`` is None."""
        return None if snapshot is None else Leadership(self.writer.epoch, snapshot.offset + 1)

    def new_checkpointer(
        self, snapshot: View[AclSnapshot | None], cluster: View[ClusterImage]
    ) -> Checkpointer:
        configuration = self._configuration
        return Checkpointer(
            Path(configuration.metadata_log_dir),
            self.writer,
            snapshot,
            cluster,
            CheckpointPolicy(
                bytes_between=configuration.metadata_log_max_record_bytes_between_snapshots,
                interval_ms=configuration.metadata_log_max_snapshot_interval_ms,
                retention_bytes=configuration.metadata_max_retention_bytes,
                retention_ms=configuration.metadata_max_retention_ms,
            ),
            replay=self.source.replay,
            storage=self._storage,
            bytes_read=lambda: self.source.bytes_since_checkpoint,
        )


def _new_update_queue(
    configuration: Configuration,
    log: Log,
    feed: trio.MemorySendChannel[Message],
    snapshot: View[AclSnapshot | None],
    image: View[ClusterImage],
    workers: WorkerPool | None,
    collector: Collector,
) -> UpdateQueue:
    new_queue = partial(
        UpdateQueue,
        log.own,
        feed,
        snapshot,
        image,
        requests_max=configuration.queued_max_requests,
        new_id=lambda: os.urandom(ACL_ID_BYTES),
        collect_garbage=collector.collect_if_many,
    )
    if workers is None:
        return new_queue()
    return new_queue(applied_everywhere=workers.applied_everywhere)


def _new_worker_pool(
    configuration: Configuration,
    applier: trio.MemorySendChannel[Message],
    snapshot: View[AclSnapshot | None],
    files: Callable[[], Files],
) -> WorkerPool | None:
    """Return the worker pool, or None if the daemon makes all decisions itself."""
    if configuration.workers == 1:
        return None
    return WorkerPool(
        configuration.workers,
        applier,
        snapshot,
        configuration=configuration.file_values,
        files=files,
        timeout_ms=configuration.worker_timeout_ms,
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
