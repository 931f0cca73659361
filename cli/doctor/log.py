"""Validate the log like ``check-log``, without a lock, and report its owner and its Kafka releases.

The daemon judges by the Kafka releases that the log or the brokers show.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio
from msgspec.structs import replace

from authorizerd.acl.explanation.failing_acls import find_failures
from authorizerd.acl.release_in_force import Evidence, ReleaseInForce, judge_release
from authorizerd.cli.doctor.finding import Finding, Level, error, ok, warning
from authorizerd.cli.offline import read_release
from authorizerd.config.configuration import Configuration
from authorizerd.config.follow.settings import FollowSettings, SourceKind
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.metadata.copy_directory import is_copy_empty, read_mark
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.inspection.findings import Fault
from authorizerd.metadata.inspection.inspection import Inspection
from authorizerd.metadata.lock import LOCK_NAME
from authorizerd.metadata.meta_properties import read_meta_properties
from authorizerd.metadata.quorum_state import check_sole_voter
from authorizerd.metadata.storage import DISK

if TYPE_CHECKING:
    from authorizerd.kafka_client.connection import OpenNode

FAULTS_MAX: Final = 10

_CHECK: Final = "log"
_COPY_ADVICE: Final = (
    "start the daemon: it truncates the copy or starts a new one, and fetches what is missing"
)


def examine_log(log_dir: Path, node_id: int, *, is_running: bool) -> Iterator[Finding]:
    """Examine the lock, the log's node, and the whole content of the log."""
    if not os.path.isdir(log_dir):
        return  # another check reports it
    holder = "held: a daemon or a broker is running" if is_running else "free"
    yield ok(_CHECK, f"{log_dir / LOCK_NAME}: {holder}")
    try:
        yield from _examine_owner(log_dir, node_id)
        yield from _examine_files(log_dir, is_running=is_running)
    except (MetadataLogError, OSError) as fault:
        advice = "restore the missing log; use authorizerd format only for new nodes"
        yield error(_CHECK, str(fault), advice)


def _examine_owner(log_dir: Path, node_id: int) -> Iterator[Finding]:
    if read_mark(log_dir) is not None:
        text = f"{log_dir}: a copy of a cluster's metadata, which no daemon may own"
        yield error(_CHECK, text, "follow the cluster, or name another directory in log.dirs")
    check_sole_voter(log_dir, node_id, DISK)
    yield from _examine_node(log_dir, node_id)


def _examine_node(log_dir: Path, node_id: int) -> Iterator[Finding]:
    properties = read_meta_properties(log_dir)
    if properties is not None and properties.node_id != node_id:
        text = f"node.id: {node_id}, but {log_dir} belongs to node {properties.node_id}"
        yield error(_CHECK, text, "correct node.id, or name the right directory")


def examine_copied_log(log_dir: Path, node_id: int, *, is_running: bool) -> Iterator[Finding]:
    """Examine the content of the copy of a followed cluster, if the directory has one."""
    try:
        if read_mark(log_dir) is None or is_copy_empty(log_dir):
            return
        if os.stat(log_dir / METADATA_TOPIC_DIRECTORY).st_mode & 0o077:
            text = f"{log_dir}: other users may read the copy, which may have SCRAM credentials"
            yield warning(_CHECK, text, f"chmod -R go= {log_dir}")
        yield from _examine_node(log_dir, node_id)
        for found in _examine_files(log_dir, is_running=is_running):
            if found.level is Level.ERROR:
                yield replace(found, level=Level.WARNING, advice=_COPY_ADVICE)
            else:
                yield found
    except (MetadataLogError, OSError) as fault:
        yield warning(_CHECK, str(fault), _COPY_ADVICE)


def _examine_files(log_dir: Path, *, is_running: bool) -> Iterator[Finding]:
    inspection = Inspection(log_dir)
    found = inspection.findings()
    faults = (each for each in found if isinstance(each, Fault))
    shown = list(islice(faults, FAULTS_MAX))
    more = sum(1 for _ in faults)  # counted, not stored: there may be millions
    for fault in shown:
        yield _report_fault(log_dir, str(fault), is_running=is_running)
    if more:
        yield _report_fault(log_dir, f"{more} more faults", is_running=is_running)
    if not shown:
        acls = "unknown" if inspection.snapshot is None else len(inspection.snapshot.acls)
        yield ok(_CHECK, f"valid up to offset {inspection.end_offset - 1}, ACLs {acls}")
    if inspection.snapshot is not None:
        for failure in find_failures(inspection.snapshot):
            yield warning(_CHECK, failure.text, failure.remedy)


def _report_fault(log_dir: Path, text: str, *, is_running: bool) -> Finding:
    if is_running:
        advice = "check again: the end of a log in use may look unfinished"
        return warning(_CHECK, text, advice)
    return error(_CHECK, text, f"authorizerd check-log {log_dir}, then again with --repair")


SECONDS_MAX: Final = 15.0

_RELEASES: Final = "releases"
_NEWER: Final = (
    "upgrade the daemon before Kafka: rules may have changed (`authorizerd docs upgrade`)"
)
_MIXED: Final = (
    "finish the upgrade, unregister nodes that are gone, and let the daemon reach every broker;"
    " meanwhile, it allows only what each of these releases allows (`authorizerd docs following`)"
)


def examine_releases(configuration: Configuration) -> Iterator[Finding]:
    """Examine the log, its copy, or the brokers. Yield nothing if there is nothing to read yet."""
    release = find_release(configuration)
    if release is None:
        return
    text = f"ACLs are judged by the rules of Kafka {release.rules}: {release.reason}"
    if release.newer:
        yield warning(_RELEASES, text, _NEWER)
    elif len(release.rules.releases) > 1:
        yield warning(_RELEASES, text, _MIXED)
    else:
        yield ok(_RELEASES, text)


def find_release(configuration: Configuration) -> ReleaseInForce | None:
    setting, follow = configuration.kafka_release.chosen, configuration.follow
    if follow is not None and follow.kind is SourceKind.BROKERS:
        return judge_release(trio.run(_ask_servers, follow), Evidence.BROKERS, setting)
    log_dir = Path(configuration.metadata_log_dir)
    try:
        return read_release(log_dir, evidence=configuration.evidence, setting=setting)
    except (MetadataLogError, OSError):
        return None  # another check reports it


async def _ask_servers(follow: FollowSettings) -> ClusterImage:
    from authorizerd.daemon.sources.nodes import NodeOpener

    return await ask_brokers(follow, NodeOpener(follow).open)


async def ask_brokers(follow: FollowSettings, open_node: OpenNode) -> ClusterImage:
    """Return the brokers' answers about their releases."""
    from authorizerd.daemon.sources.brokers.exchange import Exchange
    from authorizerd.daemon.sources.brokers.messages import Opened, Target
    from authorizerd.daemon.sources.brokers.release_probe import ReleaseProbe
    from authorizerd.daemon.sources.status import SourceStatus

    exchange = Exchange(open_node, follow, SourceStatus(follow.kind))
    async with trio.open_nursery() as nursery:
        probe = ReleaseProbe(open_node, nursery)
        with trio.move_on_after(SECONDS_MAX):
            for server in follow.servers:
                opened = await exchange.open(Target(server.host, server.port))
                if isinstance(opened, Opened) and opened.brokers:
                    await probe.look(opened.brokers)
                    break
        changes = probe.take_changes()
        await exchange.aclose()
        await probe.aclose()
        nursery.cancel_scope.cancel()
    return apply_cluster_changes(EMPTY_IMAGE, changes)
