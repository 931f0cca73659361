"""Kafka's own StandardAuthorizer as the peer, in a new JVM for each measurement.

Maven resolves the jars. Without Java, Maven or the jars, the peer is absent, with the reason.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from authorizerd.metadata.directory import parse_checkpoint_name
from tools.bench.figures import Absent
from tools.bench.processes import ProcessError, capture_json, capture_output

VERSION: Final = "4.3.1"
NAME: Final = f"Kafka {VERSION}"
VERSION_WITH_RANGES: Final = "4.4.0"
"""The release that reads ranges in the hosts of ACLs."""

_SOURCES: Final = Path(__file__).parent / "jvm"
_RESOLVE: Final = "org.apache.maven.plugins:maven-dependency-plugin:2.8:build-classpath"
_RESOLVE_TIMEOUT_SECONDS: Final = 120.0
_COMPILE_TIMEOUT_SECONDS: Final = 60.0
_RUN_TIMEOUT_SECONDS: Final = 120.0
_JVM_OPTIONS: Final = ("-Xmx4g", "-XX:+UseSerialGC")
HEAP_GIB: Final = 8
"""The most heap of a JVM that starts from a checkpoint."""
_START_OPTIONS: Final = (f"-Xmx{HEAP_GIB}g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""The collector is that of kafka-server-start.sh."""
_START_TIMEOUT_SECONDS: Final = 600.0

T = TypeVar("T")


class Decisions(msgspec.Struct, frozen=True):
    """``answers`` has an A or a D for each question. Times are per decision."""

    answers: str
    cpu_ns_min: float
    cpu_ns_median: float
    wall_ns_median: float


class CallTimes(msgspec.Struct, frozen=True):
    """Wall times of single calls, in µs; each addition or removal of an ACL is one."""

    p50: float
    p99: float
    max: float


class State(msgspec.Struct, frozen=True):
    """Loading and keeping a set; ``load_seconds_warm`` is the best load after the first."""

    acl_count: int
    load_seconds_cold: float
    load_seconds_warm: float
    heap_bytes_per_acl: float
    update_us: CallTimes


class Start(msgspec.Struct, frozen=True):
    """A start from a checkpoint, and what follows. Times of calls are in µs of wall time.

    ``seconds`` and ``cpu_seconds`` are from the start of the process to the loaded authorizer.
    ``heap_bytes`` is the heap in use then, after full collections, with the metadata image.
    ``answers`` has an A or a D for each question.
    """

    seconds: float
    cpu_seconds: float
    acl_count: int
    heap_bytes: int
    decision_us: CallTimes
    update_us: CallTimes
    answers: str


@dataclass(frozen=True, slots=True)
class KafkaPeer:
    """The compiled peer, or the reason for its absence."""

    classpath: str | Absent
    name: str = NAME

    def decisions(self, directory: Path, set_name: str, seconds: float) -> Decisions | Absent:
        """Measure decisions; the set's lines are in ``directory``."""
        return self._run(Decisions, "decisions", directory, set_name, str(seconds))

    def state(self, directory: Path, set_name: str) -> State | Absent:
        """Measure loading, updates and memory."""
        return self._run(State, "state", directory, set_name)

    def start(self, checkpoint: Path, questions: Path) -> Start | Absent:
        """Measure a start from a checkpoint, then decisions and updates."""
        found = parse_checkpoint_name(checkpoint)
        place = (checkpoint.parent, str(found.end_offset), str(found.epoch))
        return self._run_java(
            Start, _START_OPTIONS, _START_TIMEOUT_SECONDS, "Start", *place, questions
        )

    def _run(self, kind: type[T], *arguments: str | Path) -> T | Absent:
        return self._run_java(kind, _JVM_OPTIONS, _RUN_TIMEOUT_SECONDS, "Peer", *arguments)

    def _run_java(
        self,
        kind: type[T],
        options: Sequence[str],
        timeout_seconds: float,
        *arguments: str | Path,
    ) -> T | Absent:
        if isinstance(self.classpath, Absent):
            return self.classpath
        command = ["java", *options, "-cp", self.classpath, *arguments]
        try:
            return capture_json(command, kind, timeout_seconds=timeout_seconds)
        except ProcessError as error:
            return Absent(str(error))


def prepare(directory: Path, version: str = VERSION) -> KafkaPeer:
    """Resolve and compile the peer of this release below ``directory``."""
    name = f"Kafka {version}"
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            return KafkaPeer(Absent(f"no {program}"), name)
    try:
        return KafkaPeer(_build(directory, version), name)
    except ProcessError as error:
        return KafkaPeer(Absent(str(error)), name)


def _build(directory: Path, version: str) -> str:
    """Return the class path of the compiled peer.

    Raises:
        ProcessError: Maven or the compiler failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(_SOURCES / "pom.xml", directory)
    jars_path = directory / "classpath.txt"
    capture_output(
        [
            "mvn",
            "-q",
            "-B",
            _RESOLVE,
            f"-Dkafka.version={version}",
            f"-Dmdep.outputFile={jars_path}",
        ],
        directory=directory,
        timeout_seconds=_RESOLVE_TIMEOUT_SECONDS,
    )
    jars = jars_path.read_text().strip()
    classes = directory / "classes"
    capture_output(
        ["javac", "-cp", jars, "-d", classes, *sorted(_SOURCES.glob("*.java"))],
        timeout_seconds=_COMPILE_TIMEOUT_SECONDS,
    )
    return f"{classes}:{jars}"
