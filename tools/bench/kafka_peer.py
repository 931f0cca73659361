"""Kafka's own StandardAuthorizer as the peer in memory, in a new JVM for each set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.metadata.directory import parse_checkpoint_name
from tests.kafka_rig import rig
from tools.bench.figures import Absent
from tools.processes import Command, capture_json

VERSION: Final = "4.3.1"
VERSION_WITH_RANGES: Final = "4.4.0"
"""The release that reads ranges in the hosts of ACLs."""

_SOURCES: Final = Path(__file__).parent / "jvm"
_RUN_SECONDS: Final = 900.0
OPTIONS: Final = ("-Xmx8g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""The collector is that of kafka-server-start.sh."""


class CallTimes(msgspec.Struct, frozen=True):
    """Wall times of single calls, in µs."""

    p50: float
    p99: float
    max: float


class InMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A set in memory, ours or Kafka's.

    ``answers`` has an A or a D for each question. ``seconds``, ``cpu_seconds`` and ``memory_bytes``
    are of the start until the checkpoint is loaded; ``loads_s`` are later loads. The times of calls
    are wall times, those of decisions in rounds CPU times, or None if there were no rounds.
    """

    answers: str
    acls: int
    seconds: float
    cpu_seconds: float
    memory_bytes: float
    bytes_per_acl: float
    loads_s: list[float]
    call_us: CallTimes
    update_us: CallTimes
    crowd_us: dict[str, CallTimes] = {}
    cpu_ns_min: float | None = None
    cpu_ns_median: float | None = None
    explain_ns_median: float | None = None


@dataclass(frozen=True, slots=True)
class KafkaPeer:
    """The compiled peer, or the reason for its absence."""

    classpath: str | Absent
    name: str

    def measure(
        self, checkpoint: Path, questions: Path, seconds: float, loads: int
    ) -> InMemory | Absent:
        """Start from a checkpoint as a broker does, ask the questions, load and update."""
        if isinstance(self.classpath, Absent):
            return self.classpath
        found = parse_checkpoint_name(checkpoint)
        command: Command = [
            "java", *OPTIONS, "-cp", self.classpath, "Peer", checkpoint.parent,
            str(found.end_offset), str(found.epoch), questions, str(seconds), str(loads),
        ]  # fmt: skip
        return capture_json(command, InMemory, timeout_seconds=_RUN_SECONDS)


def prepare(version: str) -> KafkaPeer:
    """Resolve and compile the peer of a release."""
    found = rig.prepare(sources=_SOURCES, version=version)
    classpath = Absent(found.reason) if isinstance(found, rig.Absent) else found.classpath
    return KafkaPeer(classpath, f"Kafka {version}")
