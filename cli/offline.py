"""Read the ACLs of a log directory or a checkpoint without a daemon.

Nothing is locked and nothing is changed, so a directory in use can be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.as_of import AsOf, Moment
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.model import Acl, AclFilter, ChangeBatch
from authorizerd.acl.release_in_force import (
    UNKNOWN_RELEASE,
    Evidence,
    ReleaseInForce,
    judge_release,
)
from authorizerd.acl.releases import Release
from authorizerd.acl.snapshot import AclSnapshot, with_rules
from authorizerd.cli.errors import CommandError
from authorizerd.image.changes import (
    ClusterChange,
    FeatureLevel,
    NodeRegistered,
    NodeUnregistered,
    TopicAdded,
    TopicRemoved,
    VotersChanged,
)
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.image.errors import ChangeError
from authorizerd.metadata.copy_directory import read_mark
from authorizerd.metadata.errors import MetadataLogError
from authorizerd.metadata.past.past_log import PastLog, check_time, read_past
from authorizerd.metadata.replay import read_changes

PROOFS: Final = (FeatureLevel, NodeRegistered, NodeUnregistered, VotersChanged)
"""The changes that prove releases."""


class LogContents(msgspec.Struct, frozen=True):
    """The ACLs of a log at one moment, and the sorted names of its topics.

    The time of ``moment`` is known only if a certain moment was requested. Past ACLs are also
    judged by the release that the log proves at its end.
    """

    snapshot: AclSnapshot
    topics: tuple[str, ...]
    moment: Moment
    release: ReleaseInForce


def read_log(
    path: Path,
    as_of: AsOf | None = None,
    *,
    evidence: Evidence | None = None,
    setting: Release | None = None,
) -> LogContents:
    """Return the contents of a log directory, or of a checkpoint file.

    Args:
        as_of: the moment of the contents; None for the end of the log.
        evidence: what proves the release in this log; None to detect it. If brokers are registered
            in the log, they prove it, since the log may belong to a live cluster. setting: the
            release; None to detect it.
    """
    if as_of is not None:
        check_time(as_of, time.time_ns() // 1_000_000)

    def judge(image: ClusterImage) -> ReleaseInForce:
        return judge_release(image, evidence or _find_evidence(path, image), setting)

    def read(log: PastLog) -> LogContents:
        assert as_of is not None
        return _build((timed.changes, timed.time_ms) for timed in log.read_until(as_of))[0]

    try:
        if as_of is None:
            contents, image = _build((batch, None) for batch in read_changes(path))
            release = judge(image)
        else:
            contents, release = read_past(path, read), _judge_end(path, judge)
        rules = with_rules(contents.snapshot, release.rules)
        return msgspec.structs.replace(contents, snapshot=rules, release=release)
    except ChangeError as error:
        raise CommandError(
            f"{path}: the log contradicts itself: {error}. Run `authorizerd check-log`"
        ) from error


def _judge_end(path: Path, judge: Callable[[ClusterImage], ReleaseInForce]) -> ReleaseInForce:
    """Return the release at the end of a log, which may be damaged after the requested moment."""
    try:
        return judge(_read_proofs(path))
    except MetadataLogError:
        return UNKNOWN_RELEASE


def read_release(
    path: Path, *, evidence: Evidence, setting: Release | None = None
) -> ReleaseInForce:
    """Return the releases whose rules judge the ACLs of a log."""
    return judge_release(_read_proofs(path), evidence, setting)


def _read_proofs(path: Path) -> ClusterImage:
    image = EMPTY_IMAGE
    for batch in read_changes(path):
        image = _apply_proofs(image, batch)
    return image


def _apply_proofs(image: ClusterImage, batch: ChangeBatch) -> ClusterImage:
    proofs = [
        cluster_change
        for cluster_change in batch.cluster_changes
        if isinstance(cluster_change, PROOFS)
    ]
    return apply_cluster_changes(image, proofs)


def _find_evidence(path: Path, image: ClusterImage) -> Evidence:
    """Return the proof of the release in a log about which nothing else is known."""
    mark = read_mark(path) if path.is_dir() else None
    if mark is not None:
        return Evidence(mark.source)
    return Evidence.QUORUM if image.nodes else Evidence.OWN_LOG


def _build(
    batches: Iterable[tuple[ChangeBatch, int | None]],
) -> tuple[LogContents, ClusterImage]:
    """Return the contents after these changes, each with its time, and what proves the release."""
    image = EMPTY_IMAGE
    builder = SnapshotBuilder()
    topics: dict[bytes, str] = {}
    moment = Moment(-1, None)
    for batch, time_ms in batches:
        builder.apply_changes(batch.changes)
        _apply_topics(topics, batch.cluster_changes)
        image = _apply_proofs(image, batch)
        moment = Moment(batch.last_offset, time_ms)
    snapshot, names = builder.freeze(moment.offset), tuple(sorted(topics.values()))
    return LogContents(snapshot, names, moment, UNKNOWN_RELEASE), image


def read_snapshot(path: Path, as_of: AsOf | None = None) -> AclSnapshot:
    """Return the ACLs of a log directory, or of a checkpoint file. See ``read_log``."""
    return read_log(path, as_of).snapshot


def _apply_topics(topics: dict[bytes, str], changes: Iterable[ClusterChange]) -> None:
    """Add and remove topics by their ids.

    ``apply_cluster_changes`` would also build every partition, which is not needed.
    """
    for change in changes:
        if type(change) is TopicAdded:
            topics[change.id] = change.name
        elif type(change) is TopicRemoved:
            topics.pop(change.id, None)


class SnapshotAcls:
    """The ACLs of a snapshot, which ``authorizerd acls`` can read like a server's."""

    def __init__(self, snapshot: AclSnapshot) -> None:
        self._snapshot = snapshot

    async def describe(self, filter: AclFilter) -> list[Acl]:
        return [acl for found in scan_acls(self._snapshot, filter) for _, acl in found]
