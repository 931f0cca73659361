"""Apache Kafka of any release from Maven: the class path, and running its programs.

**Invariant:** without Java, Maven or the jars, callers get an ``Absent`` with the reason and no
rig. No substitute runs in Kafka's place, and every wait has a time limit.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

VERSION: Final = "4.3.1"
"""The release that runs unless another one is named."""

NEWEST_VERSION: Final = "4.4.0"
"""The newest release; Maven has no kafka-shell of it."""

DIRECTORY: Final = Path(".run/kafka_rig")
TOOL_TIMEOUT_SECONDS: Final = 60.0

SOURCES: Final = Path(__file__).parent
_RESOLVE: Final = "org.apache.maven.plugins:maven-dependency-plugin:2.8:build-classpath"
_RESOLVE_TIMEOUT_SECONDS: Final = 300.0
_COMPILE_TIMEOUT_SECONDS: Final = 60.0
# The tools run for about a second, so little compilation and a simple collector are fastest.
_TOOL_OPTIONS: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_ERROR_CHARACTERS_MAX: Final = 500
_NOT_BEFORE_4: Final = frozenset({"AdminPeer.java"})
"""Classes of ours that need Kafka 4: a new API of the admin client."""

Argument = str | Path


class RigError(Exception):
    """A program could not be run, or exceeded its time limit; the text names it."""


@dataclass(frozen=True, slots=True)
class Absent:
    """The reason why there is no Kafka here."""

    reason: str


@dataclass(frozen=True, slots=True)
class Output:
    """A program's output and exit code."""

    exit_code: int
    stdout: str
    stderr: str


class Program(StrEnum):
    """Kafka's command line tools by name."""

    ACLS = "kafka-acls"
    CONFIGS = "kafka-configs"
    TOPICS = "kafka-topics"
    DUMP_LOG = "kafka-dump-log"
    FEATURES = "kafka-features"
    METADATA_QUORUM = "kafka-metadata-quorum"
    METADATA_SHELL = "kafka-metadata-shell"
    STORAGE = "kafka-storage"

    @property
    def main_class(self) -> str:
        """The class that the tool's script runs."""
        return _MAIN_CLASSES[self]


_MAIN_CLASSES: Final = {
    Program.ACLS: "org.apache.kafka.tools.AclCommand",
    Program.CONFIGS: "kafka.admin.ConfigCommand",
    Program.TOPICS: "org.apache.kafka.tools.TopicCommand",
    Program.DUMP_LOG: "org.apache.kafka.tools.DumpLogSegments",
    Program.FEATURES: "org.apache.kafka.tools.FeatureCommand",
    Program.METADATA_QUORUM: "org.apache.kafka.tools.MetadataQuorumCommand",
    Program.METADATA_SHELL: "org.apache.kafka.shell.MetadataShell",
    Program.STORAGE: "kafka.tools.StorageTool",
}


@dataclass(frozen=True, slots=True)
class Rig:
    """A class path with Kafka's jars and this project's own classes."""

    classpath: str

    def command(self, main_class: str, *arguments: Argument, options: Sequence[str]) -> list[str]:
        """Return a command line that runs a class in a new JVM."""
        return ["java", *options, "-cp", self.classpath, main_class, *map(str, arguments)]

    def run(
        self,
        program: Program,
        *arguments: Argument,
        timeout_seconds: float = TOOL_TIMEOUT_SECONDS,
    ) -> Output:
        """Run one of Kafka's tools to its end.

        Raises:
            RigError: it could not be started, or exceeded the time limit.
        """
        return self.run_class(program.main_class, *arguments, timeout_seconds=timeout_seconds)

    def run_class(
        self,
        main_class: str,
        *arguments: Argument,
        written: str = "",
        timeout_seconds: float = TOOL_TIMEOUT_SECONDS,
    ) -> Output:
        """Run a class to its end, with ``written`` on its standard input.

        Raises:
            RigError: as ``run``.
        """
        logging = f"-Dlog4j2.configurationFile={SOURCES / 'tools-log4j2.properties'}"
        command = self.command(main_class, *arguments, options=(*_TOOL_OPTIONS, logging))
        return run_to_end(command, written=written, timeout_seconds=timeout_seconds)

    def dump_log(self, *files: Path) -> Output:
        """Print segments and checkpoints of metadata logs with kafka-dump-log."""
        names = ",".join(map(str, files))
        return self.run(Program.DUMP_LOG, "--cluster-metadata-decoder", "--files", names)

    def metadata_shell(self, file: Path, *command: str) -> Output:
        """Run a command of kafka-metadata-shell on a segment or a checkpoint.

        It runs on a copy, because it locks the directory, which a broker or a daemon may hold.
        """
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory) / file.parent.name / file.name
            copy.parent.mkdir()
            shutil.copy(file, copy)
            return self.run(Program.METADATA_SHELL, "--snapshot", copy, *command)


def prepare(
    directory: Path = DIRECTORY, sources: Path | None = None, *, version: str = VERSION
) -> Rig | Absent:
    """Return the rig, or the reason for its absence.

    Args:
        sources: the directory of Maven's ``pom.xml`` and of our classes; None for Kafka itself.
            ``SOURCES / "zookeeper"`` is for the last release with ZooKeeper, whatever ``version``.
        version: a release of Kafka, such as 4.4.0.

    The first call resolves the jars with Maven and compiles our classes, below ``directory``. This
    takes seconds if Maven has the jars, and minutes if it must download them.
    """
    if shutil.which("java") is None:
        return Absent("no java")
    sources = sources or SOURCES
    built = directory.absolute() / _digest(sources, version)
    try:
        jars = _jars(built) or _build(built, sources, version)
    except RigError as error:
        return Absent(str(error))
    return Rig(os.pathsep.join((str(built / "classes"), jars)))


def _java_sources(sources: Path) -> list[Path]:
    return sorted((sources / "java").rglob("*.java"))


def _digest(sources: Path, version: str) -> str:
    """Return a name for the build of these sources with this release."""
    digest = hashlib.sha256(version.encode())
    for path in (sources / "pom.xml", *_java_sources(sources)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _jars(built: Path) -> str | None:
    """Return the class path of the jars, or None if it was not built or a jar is missing."""
    path = built / "classpath.txt"
    if not path.exists():
        return None
    jars = path.read_text().strip()
    # The jars are in Maven's repository, which may have been emptied since.
    is_whole = jars and all(Path(jar).exists() for jar in jars.split(os.pathsep))
    return jars if is_whole else None


def _build(built: Path, sources: Path, version: str) -> str:
    """Resolve the jars, compile our classes, and return the class path of the jars.

    ``built`` is created atomically.

    Raises:
        RigError: Maven or the compiler is missing or failed.
    """
    for program in ("mvn", "javac"):
        if shutil.which(program) is None:
            raise RigError(f"no {program}")
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as name:
        # A subdirectory, since the temporary one itself is removed at the end.
        directory = Path(name) / "built"
        directory.mkdir()
        _resolve(sources, version, directory / "classpath.txt")
        jars = _jars(directory)
        if jars is None:
            raise RigError("mvn: no jars, or missing jars, in the class path")
        java = [
            each
            for each in _java_sources(sources)
            if not (version.startswith("3.") and each.name in _NOT_BEFORE_4)
        ]
        if java:
            _compile(java, jars, directory / "classes")
        # A build whose jars are gone would prevent the rename.
        shutil.rmtree(built, ignore_errors=True)
        with suppress(OSError):  # another process was faster, and built the same
            directory.rename(built)
    return jars


def _resolve(sources: Path, version: str, jars_path: Path) -> None:
    settings = (f"-Dkafka.version={version}", f"-Dmdep.outputFile={jars_path}")
    _demand(
        ["mvn", "-q", "-B", "-f", sources / "pom.xml", _RESOLVE, *settings],
        timeout_seconds=_RESOLVE_TIMEOUT_SECONDS,
    )


def _compile(java: Sequence[Path], jars: str, classes: Path) -> None:
    options = ("--release", "17", "-proc:none", "-cp", jars, "-d", str(classes))
    _demand(["javac", *options, *map(str, java)], timeout_seconds=_COMPILE_TIMEOUT_SECONDS)


def _demand(command: Sequence[Argument], *, timeout_seconds: float) -> None:
    done = run_to_end(command, timeout_seconds=timeout_seconds)
    if done.exit_code:
        said = (done.stdout + done.stderr).strip()
        raise RigError(f"{command[0]}: exit code {done.exit_code}: {said[:_ERROR_CHARACTERS_MAX]}")


def run_to_end(command: Sequence[Argument], *, written: str = "", timeout_seconds: float) -> Output:
    """Run a command and return what it printed, in UTF-8 whatever the locale.

    Raises:
        RigError: it could not be started, or exceeded the time limit.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=java_environment(),
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise RigError(f"{command[0]}: {error.strerror or error}") from error
    with process:
        try:
            stdout, stderr = process.communicate(written, timeout_seconds)
        except subprocess.TimeoutExpired as error:
            raise RigError(f"{command[0]}: not finished in {timeout_seconds:g} s") from error
        finally:
            if process.poll() is None:
                # Kill the whole group: Maven may be a script that waits for a JVM.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()  # Popen's own exit does not wait after Ctrl-C
    return Output(process.returncode, stdout, stderr)


def java_environment() -> dict[str, str]:
    """Return the environment in which Java reads and prints names as UTF-8."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}
