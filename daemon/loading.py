"""Load the log at the start, and report the result."""

from __future__ import annotations

import logging
from typing import NamedTuple

from authorizerd.acl.explanation.failing_acls import find_failures
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.daemon.components import DaemonServices
from authorizerd.daemon.sources.own_log_reader import LocalLogSource
from authorizerd.daemon.sources.source import Source
from authorizerd.image.features import METADATA_VERSION_KNOWN

_logger = logging.getLogger("authorizerd")


class Loaded(NamedTuple):
    """The number of loaded ACLs, and the log offset of the last record."""

    acls: int
    offset: int


async def load_log(parts: DaemonServices) -> Loaded:
    """Load the log and open the endpoints.

    With workers, this waits until all of them listen. It does not hold the loaded snapshot during
    this wait: freeing a snapshot that is thousands of changes old would block the event loop.

    Raises:
        StartError: the log is damaged, or cannot be read or written.
        MetadataLogError, UnfitChangeError: the log is inconsistent.
    """
    is_cluster_unknown = not parts.origin.cluster_id
    try:
        await parts.origin.load()
    except Exception as error:
        parts.standard.complete_initial_load(error)  # fail the tasks that wait for the authorizer
        raise
    snapshot = await parts.applier.snapshot.wait_until(lambda newest: newest is not None)
    assert snapshot is not None
    loaded = Loaded(len(snapshot.acls), snapshot.offset)
    del snapshot
    if is_cluster_unknown:
        parts.authorizer.learn_cluster_id(parts.origin.cluster_id)
    # Apply the log's dynamic configs first: they may limit who is served.
    parts.settings.refresh()
    parts.standard.complete_initial_load()
    parts.query_process.begin()
    if parts.workers is not None:
        parts.workers.begin()
        await parts.workers.wait_until_complete()
    return loaded


def report_log(source: Source, snapshot: AclSnapshot | None) -> None:
    """Log what an operator should know about the log that was read, and about its ACLs."""
    for failure in () if snapshot is None else find_failures(snapshot):
        _logger.warning("%s; %s", failure.text, failure.remedy)
    torn = source.progress.torn_tail if isinstance(source, LocalLogSource) else None
    if torn is not None:
        _logger.warning(
            "%s: the last %d bytes, from byte %d, were an unfinished write and are cut off: %s",
            torn.path, torn.size, torn.position, torn.reason,
        )  # fmt: skip
    if source.metadata_version > METADATA_VERSION_KNOWN:
        _logger.warning(
            "metadata.version %d is above %d, the newest known: records of new kinds are ignored",
            source.metadata_version,
            METADATA_VERSION_KNOWN,
        )
