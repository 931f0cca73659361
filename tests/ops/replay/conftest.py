"""One Spark session for all tests, since starting it takes longer than most jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.sizes import IS_WHOLE
from tests.support.spark import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # short runs should not compile much
SPARK_LOGGING = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c: %m%n
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore unclosed sockets of py4j, only in tests that use Spark."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a local session with two threads; its workers use this interpreter and source tree."""
    require_spark()
    from authorizerd.replay.spark.session import session_builder

    folder = tmp_path_factory.mktemp("spark")
    logging = folder / "log4j2.properties"
    logging.write_text(SPARK_LOGGING)
    log_option = f"-Dlog4j2.configurationFile={logging.as_uri()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        session = (
            session_builder("tests")
            .master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraJavaOptions", f"{QUICK_START} {log_option}")
            .config("spark.executorEnv.PYTHONPATH", str(ROOT))
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "1s")
            .config("spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures", "1")
            .config("spark.sql.shuffle.partitions", "2")
            # For a few rows, to compile a plan takes longer than to interpret it.
            .config("spark.sql.codegen.wholeStage", IS_WHOLE)
            .config("spark.sql.codegen.factoryMode", "FALLBACK" if IS_WHOLE else "NO_CODEGEN")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .getOrCreate()
        )
        yield session
        session.stop()
        _end_gateway()


@pytest.fixture
def small_splits(spark: SparkSession) -> Iterator[None]:
    """Let Spark split files into 64 KiB, and give a task several splits."""
    names = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
    before = {name: str(spark.conf.get(name)) for name in names}
    for name in names:
        spark.conf.set(name, "65536b")
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def _end_gateway() -> None:
    """End the JVM, which would otherwise keep running, with open pipes, as long as the tests."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.wait(timeout=60)
    SparkContext._gateway = None
    SparkContext._jvm = None
