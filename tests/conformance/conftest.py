"""The rig, a running broker, and the seed of what is random.

``make conformance SEED=1234`` repeats a run that failed with that seed. At its end the matrix of
admin clients is printed; ``WRITE=1`` keeps it in docs/conformance.md.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from ops.kafka_rig.broker import Broker, format_storage, running_broker
from ops.kafka_rig.rig import DIRECTORY, Absent, Rig, prepare
from tests.client_matrix.table import Matrix, document

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "conformance.md"

_MATRIX = pytest.StashKey[Matrix]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed",
        type=int,
        default=random.SystemRandom().randrange(1_000_000_000),
        help="the seed of the random cases (default: another one each time)",
    )

    parser.addoption(
        "--write-matrix",
        action="store_true",
        help="keep the matrix of admin clients in docs/conformance.md",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_MATRIX] = Matrix()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the matrix of what was run, and keep it where that was asked for."""
    matrix = config.stash[_MATRIX]
    if not matrix.outcomes:
        return
    terminalreporter.section("admin clients on our daemon")
    for line in matrix.lines():
        terminalreporter.write_line(line)
    if config.getoption("write_matrix"):
        DOCUMENT.write_text(document(matrix, date.today().isoformat()), encoding="utf-8")


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.getoption('seed')}"


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    chosen: int = pytestconfig.getoption("seed")
    return chosen


@pytest.fixture(scope="session")
def matrix(pytestconfig: pytest.Config) -> Matrix:
    """Where the outcomes of the run are kept, to be printed at its end."""
    return pytestconfig.stash[_MATRIX]


@pytest.fixture(scope="session")
def rig() -> Rig:
    """Kafka's own programs and classes; without them the test is skipped, and says why."""
    prepared = prepare(ROOT / DIRECTORY)
    if isinstance(prepared, Absent):
        pytest.skip(f"no Kafka to compare with: {prepared.reason}")
    return prepared


@pytest.fixture(scope="session")
def formatted(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory as kafka-storage leaves it; copy it before anything runs on it."""
    directory = tmp_path_factory.mktemp("formatted")
    done = format_storage(rig, directory, directory / "log")
    assert done.exit_code == 0, done
    return directory / "log"


@pytest.fixture(scope="session")
def broker(rig: Rig, formatted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for whoever needs one that runs: nobody stops it, nobody counts on its ACLs."""
    directory = tmp_path_factory.mktemp("broker")
    shutil.copytree(formatted, directory / "log")
    with running_broker(rig, directory, directory / "log") as broker:
        yield broker
