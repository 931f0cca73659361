import gc
import logging
import os
import signal
import tarfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import cache
from inspect import iscoroutinefunction
from pathlib import Path

import pytest
import trio
from hypothesis import settings
from trio.testing import MockClock

from tests.support.daemon_process import DaemonProcess, new_log, running
from tests.support.sizes import IS_WHOLE, size

pytest_plugins = ["tests.support.skipped_tests"]

# No test depends on timing.
settings.register_profile("authorizerd", deadline=None, max_examples=size(10, 100))

TESTS = Path(__file__).parent
FAST = "not slow"
"""The expression after ``-m`` that selects the fast tests."""

SLOW_PLACES = (
    "chaos/test_chaos.py", "chaos/test_means.py", "cli/doctor/test_command.py",
    "cli/groups/test_directory.py", "cli/questions/test_history.py",
    "cli/log/test_check_log.py", "cli/test_main.py",
    "cli/test_source_agreement.py", "cli/test_start.py", "cli/transfer/test_pairs.py", "clients",
    "conformance", "daemon/test_lifespan.py", "daemon/decisions/test_certification.py",
    "daemon/sources/brokers/test_schedules.py", "daemon/sources/quorum/test_schedules.py",
    "daemon/sources/quorum/test_source.py", "daemon/test_memory_growth.py",
    "daemon/workers/test_pool.py", "end_to_end", "faults/test_schedules.py", "fuzz",
    "loop/test_stretches.py", "metadata/test_flipped_bytes.py", "metadata/test_recovery.py",
    "metadata/inspection/test_repair.py", "model/test_stories.py", "mutants/test_trial.py", "ops",
    "protocol/kafka/test_acl_responses.py", "soak/test_soak.py", "support/test_forked_command.py",
    "test_packaging.py", "tools",
)  # fmt: skip
"""Folders and modules whose tests start processes or take more than a second."""

LONGEST_PLACES = (
    "clients/test_page.py", "end_to_end/test_copy.py", "end_to_end/test_follow_brokers.py",
    "end_to_end/test_reload.py", "loop/test_stretches.py", "metadata/test_flipped_bytes.py",
    "tools/bench/test_main.py",
)  # fmt: skip
"""Places whose tests take several seconds each."""

SPARK = "spark"
SPARK_PLACES = ("end_to_end/test_replay.py",)
"""Modules that start Spark as a program."""

JUMPING_CLOCK = "autojump_clock"
SLOW_FIXTURES = {"daemon", SPARK}
REAL_LOG = Path(__file__).parent / "data" / "kafka-4.3.1.tar.xz"


def is_slow(path: Path) -> bool:
    return is_below(path, SLOW_PLACES)


@cache  # pytest asks for each of thousands of tests
def is_below(path: Path, places: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(TESTS / place) for place in places)


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job ignores this signal, and so would the programs that tests start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("AUTHORIZERD_PROFILE", None)  # no test asks the developer's cluster
    settings.load_profile("authorizerd")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Hide the collected tests from the garbage collector.

    They live to the end of the run, and each full collection would look at all of them again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import slow modules for the fast tests; Spark and Kafka clients load slowly."""
    return True if config.getoption("markexpr") == FAST and is_slow(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Undo the log level of a daemon in this process: the next tests look for warnings.

    A test that leaves the garbage collector off fails: in later tests, garbage would look like
    leaks.
    """
    yield
    logging.getLogger().setLevel(logging.WARNING)
    if not gc.isenabled():
        gc.enable()
        pytest.fail("the garbage collector was left off")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Run two processes for each CPU, because many tests wait."""
    return 2 * (os.cpu_count() or 1)


def run_on_jumping_clock(
    test: Callable[[], Awaitable[object]],
    *,
    clock: trio.abc.Clock | None,
    instruments: Sequence[trio.abc.Instrument],
) -> object:
    """Run a test of a module that uses ``autojump_clock``; pytest-trio finds only arguments."""
    clock = clock or MockClock(autojump_threshold=0)
    return trio.run(test, clock=clock, instruments=instruments)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the slow tests and those on Spark, and let the run begin with the longest.

    Only runs with ``WHOLE=1`` have the tests that are marked as nightly.

    pytest-xdist gives each process an equal part of the list, from whose end idle processes take
    tests. So one process begins with all tests on Spark, which share its session, and the longest.
    """
    nightly: list[pytest.Item] = []
    spark: list[pytest.Item] = []
    longest: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        if not IS_WHOLE and item.get_closest_marker("nightly"):
            nightly.append(item)
            continue
        fixtures = {*getattr(item, "fixturenames", ())}
        if is_slow(item.path) or SLOW_FIXTURES & fixtures:
            item.add_marker(pytest.mark.slow)
        if JUMPING_CLOCK in fixtures and iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.trio(run=run_on_jumping_clock))
        is_on_spark = SPARK in fixtures or is_below(item.path, SPARK_PLACES)
        if is_on_spark:
            item.add_marker(pytest.mark.replay)
        is_longest = is_below(item.path, LONGEST_PLACES)
        (spark if is_on_spark else longest if is_longest else others).append(item)
    config.hook.pytest_deselected(items=nightly)
    items[:] = [*spark, *longest, *others]


@pytest.fixture(scope="session", autouse=True)
def _without_hypothesis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hide hypothesis from the programs that tests start, as on a user's machine.

    kio imports it if it is installed, which takes a third of a daemon's start.
    """
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "hypothesis.py").write_text("raise ImportError('hidden from started programs')\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the programs that tests start share compiled modules, even if none may be left behind.

    With ``PYTHONDONTWRITEBYTECODE``, each start compiles every module, which doubles its time.
    """
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get("PYTHONDONTWRITEBYTECODE"):
            patch.delenv("PYTHONDONTWRITEBYTECODE")
            patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("compiled")))
        yield


@pytest.fixture(scope="session")
def real_log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack a log directory that an Apache Kafka 4.3.1 broker wrote. Change only copies of it.

    It also has ``acls-list.txt``, the output of ``kafka-acls --list`` at the end of the log, and
    ``kafka-authorizer.log.xz``, the broker's audit log.
    """
    unpacked = tmp_path_factory.mktemp("real")
    with tarfile.open(REAL_LOG) as archive:
        archive.extractall(unpacked, filter="data")
    return unpacked / "kafka-4.3.1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> object:
    from tests.support.certificates import Authority  # few tests need what it loads

    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    """Run a daemon on an empty log, on which anonymous clients may do anything."""
    with running(tmp_path, new_log(tmp_path), super_users="User:ANONYMOUS") as daemon:
        yield daemon
