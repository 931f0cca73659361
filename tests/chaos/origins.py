"""Where the daemon's ACLs come from, and how the checker reads that log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from ops.kafka_rig.cluster import Cluster
from ops.kafka_rig.cluster_settings import FOLLOWER
from ops.kafka_rig.followers import quorum_source
from tests.chaos.log_reader import LogBatch, LogReader
from tests.chaos.supervised_daemon import SETTINGS
from tests.chaos.tail import Tail
from tests.support.acls import acl
from tests.support.daemon_process import new_log, run


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
    """What a run needs to know of its origin.

    ``config`` are the daemon's keys, and ``log_dir`` is its log or its copy. ``given_offset`` is
    the end of what was in the log before the clients came.
    """

    log_dir: Path
    config: Mapping[str, str]
    witness: Witness
    given_offset: int

    def find_faults(self) -> str:
        """Return what is wrong with the log after the end, or an empty text."""


class OwnLog:
    """A new log in ``folder``."""

    given_offset = -1

    def __init__(self, folder: Path) -> None:
        self.log_dir = new_log(folder)
        self.config: Mapping[str, str] = {}
        self.witness: Witness = Tail(self.log_dir / METADATA_TOPIC_DIRECTORY)

    def find_faults(self) -> str:
        done = run("check-log", str(self.log_dir))
        return done.stdout if done.returncode else ""


class FollowedCluster:
    """A real cluster, which the daemon changes as itself. It keeps its copy in ``folder``."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        cluster.create(acl(f"User:{FOLLOWER}", "ALTER", cluster=True))
        self.log_dir = folder / "log"
        self.config: Mapping[str, str] = {
            **quorum_source(cluster),
            "listener.security.protocol.map": SETTINGS["listener.security.protocol.map"],
            "authorizerd.writes": "as-self",
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
