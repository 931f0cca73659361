"""Kafka's own StandardAuthorizer as the peer: its jars resolved by Maven, a fresh JVM per question.

Where Java or Maven is missing, or the jars cannot be had, the peer is absent and says why.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from ops.bench.figures import Absent
from ops.bench.processes import ProcessError, json_of, output_of

NAME: Final = "Kafka 4.3.1"

_SOURCES: Final = Path(__file__).parent / "jvm"
_RESOLVE: Final = "org.apache.maven.plugins:maven-dependency-plugin:2.8:build-classpath"
_RESOLVE_TIMEOUT_SECONDS: Final = 120.0
_COMPILE_TIMEOUT_SECONDS: Final = 60.0
_RUN_TIMEOUT_SECONDS: Final = 120.0
_JVM_OPTIONS: Final = ("-Xmx4g", "-XX:+UseSerialGC")

T = TypeVar("T")


class Decisions(msgspec.Struct, frozen=True):
    """``answers`` has an A or a D for each question; the times are those of one decision."""

    answers: str
    cpu_ns_min: float
    cpu_ns_median: float
    wall_ns_median: float


class Updates(msgspec.Struct, frozen=True):
    """Times of one addition or removal, in µs."""

    p50: float
    p99: float
    max: float


class State(msgspec.Struct, frozen=True):
    """Loading and holding a set; ``load_seconds_warm`` is the best of the loads but the first."""

    acl_count: int
    load_seconds_cold: float
    load_seconds_warm: float
    heap_bytes_per_acl: float
    update_us: Updates


@dataclass(frozen=True, slots=True)
class KafkaPeer:
    """``classpath`` is that of the compiled peer, or why there is none."""

    classpath: str | Absent

    def decisions(self, directory: Path, set_name: str, seconds: float) -> Decisions | Absent:
        """Measure the decisions of a set whose lines are in ``directory``."""
        return self._run(Decisions, "decisions", directory, set_name, str(seconds))

    def state(self, directory: Path, set_name: str) -> State | Absent:
        """Measure loading, updates and memory."""
        return self._run(State, "state", directory, set_name)

    def _run(self, kind: type[T], *arguments: str | Path) -> T | Absent:
        if isinstance(self.classpath, Absent):
            return self.classpath
        command = ["java", *_JVM_OPTIONS, "-cp", self.classpath, "Peer", *arguments]
        try:
            return json_of(command, kind, timeout_seconds=_RUN_TIMEOUT_SECONDS)
        except ProcessError as error:
            return Absent(str(error))


def prepare(directory: Path) -> KafkaPeer:
    """Resolve and compile the peer below ``directory``."""
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            return KafkaPeer(Absent(f"no {program}"))
    try:
        return KafkaPeer(_build(directory))
    except ProcessError as error:
        return KafkaPeer(Absent(str(error)))


def _build(directory: Path) -> str:
    """Return the class path of the compiled peer.

    Raises:
        ProcessError: Maven or the compiler failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(_SOURCES / "pom.xml", directory)
    jars_path = directory / "classpath.txt"
    output_of(
        ["mvn", "-q", "-B", _RESOLVE, f"-Dmdep.outputFile={jars_path}"],
        directory=directory,
        timeout_seconds=_RESOLVE_TIMEOUT_SECONDS,
    )
    jars = jars_path.read_text().strip()
    classes = directory / "classes"
    output_of(
        ["javac", "-cp", jars, "-d", classes, *sorted(_SOURCES.glob("*.java"))],
        timeout_seconds=_COMPILE_TIMEOUT_SECONDS,
    )
    return f"{classes}:{jars}"
