"""Where the daemon's ACLs come from, and how the judge reads that log."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from tests.chaos.supervised_daemon import ADMIN, SETTINGS
from tests.fleet.log_reader import LogBatch, LogReader, ReadLog, tailing
from tests.kafka_rig.cluster import Cluster
from tests.kafka_rig.cluster_settings import FOLLOWER, POLLER
from tests.kafka_rig.followers import brokers_source, quorum_source
from tests.support.acls import acl
from tests.support.daemon_process import new_log

STALE_SECONDS: Final = 8
"""How long the daemon decides without contact."""
BEHIND_SECONDS_MAX: Final = STALE_SECONDS + 12.0
"""How long it may decide without a change in the cluster. A broker is in contact although it lacks
the changes of the last 2 to 4 seconds, and a busy machine takes time as well.
"""


class Source(StrEnum):
    """Where the daemon's ACLs come from. The values are those of ``authorizerd.source``."""

    LOG = "log"
    QUORUM = "quorum"
    BROKERS = "brokers"


class Writes(StrEnum):
    """How a follower makes changes: a value of ``authorizerd.writes``."""

    AS_SELF = "as-self"
    FORWARD = "forward"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The facts that a run needs about its origin.

    Attributes:
        log_dir: the daemon's log, or its copy.
        witness: reads the log in which every update must be.
        config: the daemon's keys.
        given_offset: the end of what was in the log before the clients came.
        cluster: None if the daemon has a log of its own.
        has_log_offsets: True if the daemon's offsets are those of the log.
    """

    log_dir: Path
    witness: AbstractContextManager[ReadLog]
    config: Mapping[str, str] = field(default_factory=dict)
    given_offset: int = -1
    cluster: Cluster | None = None
    has_log_offsets: bool = True


def own_log(folder: Path) -> Origin:
    log_dir = new_log(folder)
    return Origin(log_dir=log_dir, witness=tailing(log_dir / METADATA_TOPIC_DIRECTORY))


_FOLLOWER: Final = {
    "listener.security.protocol.map": SETTINGS["listener.security.protocol.map"],
    "authorizerd.source.stale.max.ms": str(STALE_SECONDS * 1000),
}
_POLLER: Final = {
    "authorizerd.source.poll.ms": "500",
    "authorizerd.source.request.timeout.ms": "2000",
}
_FORWARD: Final = {
    "authorizerd.writes.forward.principals": f"User:{ADMIN}",
    "authorizerd.writes.forward.privileged": "super-users,local-users",
}


def followed_cluster(cluster: Cluster, folder: Path, source: Source, writes: Writes) -> Origin:
    """Let a real cluster be followed and changed by a daemon that keeps its copy in ``folder``."""
    for user in (FOLLOWER, POLLER):
        cluster.create(acl(f"User:{user}", "ALTER", cluster=True))
    majority = Majority([each.metadata_dir for each in cluster.controllers])
    batches, _ = majority.read()
    return Origin(
        log_dir=folder / "log",
        witness=nullcontext(majority.read),
        config={
            **(quorum_source(cluster) if source is Source.QUORUM else brokers_source(cluster)),
            **_FOLLOWER,
            **(_POLLER if source is Source.BROKERS else {}),
            **(_FORWARD if writes is Writes.FORWARD else {}),
            "authorizerd.writes": writes,
        },
        given_offset=batches[-1].last_offset,
        cluster=cluster,
        has_log_offsets=source is Source.QUORUM,
    )


class Majority:
    """What two of the three controllers' logs have. Nothing else may be visible."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._readers = [LogReader(each) for each in folders]
        self._before: Sequence[LogBatch] = ()

    def read(self) -> tuple[Sequence[LogBatch], Sequence[LogBatch]]:
        for reader in self._readers:
            reader.read()
        first, second, third = (reader.batches for reader in self._readers)
        pairs = ((first, second), (second, third), (third, first))
        common = max((_common(*pair) for pair in pairs), key=len)
        lost = self._before[len(_common(self._before, common)) :]
        self._before = common
        return common, lost


def _common(first: Sequence[LogBatch], second: Sequence[LogBatch]) -> Sequence[LogBatch]:
    pairs = enumerate(zip(first, second, strict=False))
    end = next((n for n, (a, b) in pairs if a != b), min(len(first), len(second)))
    return first[:end]
