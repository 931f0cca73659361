"""The rig, a running broker, and the random seed.

``make conformance SEED=1234`` repeats a run with that seed. The end of a run prints the matrix of
admin clients; ``WRITE=1`` writes it to docs/conformance.md.
"""

import lzma
import os
import random
import shlex
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from tests.client_matrix.table import Matrix, document
from tests.conformance.audit_topic import AuditTopic
from tests.end_to_end.page_shell import PATH, Shell
from tests.kafka_rig.broker import Broker, format_storage, running_broker
from tests.kafka_rig.cluster import Cluster, running_cluster
from tests.kafka_rig.cluster_settings import ClusterSettings
from tests.kafka_rig.rig import (
    DIRECTORY,
    NEWEST_VERSION,
    SOURCES,
    VERSION,
    Absent,
    Program,
    Rig,
    prepare,
)
from tests.support.spark import require_spark

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "conformance.md"
PAGE_SECONDS_MAX = 300
"""Time limit of a page's command: the tools start slowly on a busy machine."""
TOOLS = {
    "kafka-acls": Program.ACLS,
    "kafka-configs": Program.CONFIGS,
    "kafka-configs.sh": Program.CONFIGS,
}

_MATRIX = pytest.StashKey[Matrix]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed",
        type=int,
        default=random.SystemRandom().randrange(1_000_000_000),
        help="seed of the random cases (default: a random one)",
    )

    parser.addoption(
        "--write-matrix",
        action="store_true",
        help="write the matrix of admin clients to docs/conformance.md",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_MATRIX] = Matrix()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the matrix, and write it to the document if asked."""
    matrix = config.stash[_MATRIX]
    if not matrix.outcomes:
        return
    terminalreporter.section("admin clients on our daemon")
    for line in matrix.lines():
        terminalreporter.write_line(line)
    if config.getoption("write_matrix"):
        _, *by_hand = DOCUMENT.read_text(encoding="utf-8").partition(
            "\n## Differences from Kafka\n"
        )
        written = document(matrix, date.today().isoformat())
        DOCUMENT.write_text("".join([written, *by_hand]), encoding="utf-8")


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.getoption('seed')}"


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    chosen: int = pytestconfig.getoption("seed")
    return chosen


@pytest.fixture(scope="session")
def matrix(pytestconfig: pytest.Config) -> Matrix:
    """Return the matrix that is printed at the end of the run."""
    return pytestconfig.stash[_MATRIX]


@pytest.fixture(scope="session")
def rig() -> Rig:
    """Return Kafka's own programs and classes; without them, skip the test with the reason."""
    return _prepared(VERSION)


@pytest.fixture(scope="session")
def newest_rig() -> Rig:
    return _prepared(NEWEST_VERSION)


def _prepared(version: str) -> Rig:
    prepared = prepare(ROOT / DIRECTORY, version=version)
    if isinstance(prepared, Absent):
        pytest.skip(f"no Kafka {version} to compare with: {prepared.reason}")
    return prepared


@pytest.fixture(scope="session")
def formatted(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory that kafka-storage formatted. Tests must run on copies of it."""
    directory = tmp_path_factory.mktemp("formatted")
    done = format_storage(rig, directory, directory / "log")
    assert done.exit_code == 0, done
    return directory / "log"


@pytest.fixture(scope="session")
def broker(rig: Rig, formatted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Run one broker for several tests, which must not stop it or rely on its ACLs."""
    directory = tmp_path_factory.mktemp("broker")
    shutil.copytree(formatted, directory / "log")
    with running_broker(rig, directory, directory / "log") as broker:
        yield broker


@pytest.fixture(scope="session")
def cluster(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run three controllers and a broker. A test leaves them running, and deletes its ACLs."""
    with running_cluster(rig, tmp_path_factory.mktemp("cluster"), ClusterSettings()) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def connector() -> str:
    """Return the jars of Spark's connector for Kafka, separated by commas."""
    require_spark()
    prepared = prepare(ROOT / DIRECTORY, SOURCES / "spark_connector")
    if isinstance(prepared, Absent):
        pytest.skip(f"no connector: {prepared.reason}")
    return ",".join(jar for jar in prepared.classpath.split(os.pathsep) if jar.endswith(".jar"))


@pytest.fixture
def shell(rig: Rig, tmp_path: Path) -> Iterator[Shell]:
    """Return a shell that finds Kafka's tools."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, program in TOOLS.items():
        options = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        command = shlex.join(rig.command(program.main_class, options=options))
        (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (tools / name).chmod(0o755)
    with Shell(tmp_path, PAGE_SECONDS_MAX, PATH=f"{tools}:{PATH}") as shell:
        yield shell


@pytest.fixture
def audit_topic(broker: Broker) -> Iterator[AuditTopic]:
    """Return a new topic of the broker, which is deleted after the test."""
    topic = AuditTopic.of_broker(broker, "audit-lines")
    topic.create()
    yield topic
    topic.delete()


@pytest.fixture
def audit_lines(real_log_dir: Path) -> list[bytes]:
    with lzma.open(real_log_dir / "kafka-authorizer.log.xz") as log:
        return log.read().splitlines()
