"""Say by the rules of which Kafka releases the daemon judges, and what keeps releases mixed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from authorizerd.acl.release_in_force import Evidence, ReleaseInForce, judge_release
from authorizerd.cli.doctor.finding import Finding, ok, warning
from authorizerd.cli.offline import read_release
from authorizerd.config.configuration import Configuration
from authorizerd.config.follow import FollowSettings, SourceKind
from authorizerd.image.changes import ClusterChange, FeatureLevel, NodeRegistered
from authorizerd.image.cluster import (
    EMPTY_IMAGE,
    ClusterImage,
    apply_cluster_changes,
)
from authorizerd.image.features import METADATA_VERSION_FEATURE
from authorizerd.metadata.errors import MetadataLogError

if TYPE_CHECKING:
    from authorizerd.daemon.sources.brokers.exchange import OpenNode

SECONDS_MAX: Final = 15.0

_CHECK: Final = "releases"
_NEWER: Final = "upgrade the daemon before Kafka: rules may have changed (docs/upgrade.md)"
_MIXED: Final = (
    "finish the upgrade, unregister nodes that are gone, and let the daemon reach every broker;"
    " meanwhile, it allows only what each of these releases allows (docs/following.md)"
)


def examine_releases(configuration: Configuration) -> Iterator[Finding]:
    """Examine the log, its copy, or the brokers. Yield nothing if there is nothing to read yet."""
    release = find_release(configuration)
    if release is None:
        return
    text = f"ACLs are judged by the rules of Kafka {release.rules}: {release.reason}"
    if release.newer:
        yield warning(_CHECK, text, _NEWER)
    elif len(release.rules.releases) > 1:
        yield warning(_CHECK, text, _MIXED)
    else:
        yield ok(_CHECK, text)


def find_release(configuration: Configuration) -> ReleaseInForce | None:
    """Return what the daemon would find out now, None if nothing can be read."""
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
    """Return what the brokers answer about their releases."""
    from authorizerd.daemon.sources.brokers.exchange import Exchange
    from authorizerd.daemon.sources.brokers.messages import Opened, Target
    from authorizerd.daemon.sources.brokers.release_probe import ReleaseProbe
    from authorizerd.daemon.sources.status import SourceStatus

    exchange = Exchange(open_node, follow, SourceStatus(follow.kind))
    changes: list[ClusterChange] = []
    async with trio.open_nursery() as nursery:
        probe = ReleaseProbe(open_node, nursery)
        with trio.move_on_after(SECONDS_MAX):
            for server in follow.servers:
                opened = await exchange.open(Target(server.host, server.port))
                if isinstance(opened, Opened) and opened.brokers:
                    await probe.look(opened.brokers)
                    break
        changes += (NodeRegistered(False, *each) for each in probe.levels.items())
        changes.append(FeatureLevel(METADATA_VERSION_FEATURE, max(probe.finalized, 0)))
        await exchange.aclose()
        await probe.aclose()
        nursery.cancel_scope.cancel()
    return apply_cluster_changes(EMPTY_IMAGE, changes)
