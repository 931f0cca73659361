"""Where the daemon's ACLs come from, and how the judge reads that log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from tests.chaos.supervised_daemon import SETTINGS
from tests.fleet.log_reader import LogBatch, LogReader
from tests.fleet.ports import ADMIN
from tests.fleet.tail import Tail
from tests.kafka_rig.cluster import Cluster
from tests.kafka_rig.cluster_settings import FOLLOWER, POLLER
from tests.kafka_rig.followers import brokers_source, quorum_source
from tests.support.acls import acl
from tests.support.daemon_process import new_log, run

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


class Witness(Protocol):
    """Reads the log in which every update must be."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def read(self) -> tuple[Sequence[LogBatch], Sequence[LogBatch]]:
        """Return all batches that are in the log now, and those that were lost since last time."""


class Origin(Protocol):
    """The facts that a run needs about its origin.

    Attributes:
        log_dir: the daemon's log, or its copy.
        config: the daemon's keys.
        given_offset: the end of what was in the log before the clients came.
        cluster: None if the daemon has a log of its own.
        has_log_offsets: True if the daemon's offsets are those of the log.
    """

    log_dir: Path
    config: Mapping[str, str]
    witness: Witness
    given_offset: int
    cluster: Cluster | None
    has_log_offsets: bool

    def find_faults(self) -> str:
        """Return what is wrong with the log after the end, or an empty text."""


class OwnLog:
    """A new log in ``folder``."""

    given_offset = -1
    has_log_offsets = True

    def __init__(self, folder: Path) -> None:
        self.cluster: Cluster | None = None
        self.log_dir = new_log(folder)
        self.config: Mapping[str, str] = {}
        self.witness: Witness = Tail(self.log_dir / METADATA_TOPIC_DIRECTORY)

    def find_faults(self) -> str:
        done = run("check-log", str(self.log_dir))
        return done.stdout if done.returncode else ""


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


class FollowedCluster:
    """A real cluster, which the daemon follows and changes. It keeps its copy in ``folder``."""

    def __init__(self, cluster: Cluster, folder: Path, source: Source, writes: Writes) -> None:
        for user in (FOLLOWER, POLLER):
            cluster.create(acl(f"User:{user}", "ALTER", cluster=True))
        self.cluster: Cluster | None = cluster
        self.has_log_offsets = source is Source.QUORUM
        self.log_dir = folder / "log"
        self.config: Mapping[str, str] = {
            **(quorum_source(cluster) if source is Source.QUORUM else brokers_source(cluster)),
            **_FOLLOWER,
            **(_POLLER if source is Source.BROKERS else {}),
            **(_FORWARD if writes is Writes.FORWARD else {}),
            "authorizerd.writes": writes,
        }
        self.witness: Witness = Majority([each.metadata_dir for each in cluster.controllers])
        batches, _ = self.witness.read()
        self.given_offset = batches[-1].last_offset

    def find_faults(self) -> str:
        return ""


class Majority:
    """What two of the controllers' logs have. Nothing else may be visible.

    Each of three logs may be behind, or have an end that the others do not have.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._readers = [LogReader(each) for each in folders]
        self._before: Sequence[LogBatch] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing: the logs stay."""

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
    """Return the batches with which both begin."""
    pairs = enumerate(zip(first, second, strict=False))
    end = next((n for n, (a, b) in pairs if a != b), min(len(first), len(second)))
    return first[:end]
