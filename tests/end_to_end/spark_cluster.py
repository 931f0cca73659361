"""A standalone Spark cluster of two workers, whose Python cannot import this project.

A server of Spark Connect can run on it.
"""

import os
import re
import signal
import socket
import subprocess
import time
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from authorizerd.replay.submit.prerequisites import find_spark_home

SECONDS_MAX = 120.0
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # short programs need little compilation
FREE_PORTS = ("--port", "0", "--webui-port", "0")
CONNECT_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
CLUSTER_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
LOAD_SETTINGS = {
    "spark.speculation": "false",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.task.maxFailures": "1",
}
MODULES = ("immutables", "msgspec", "pyarrow")


@dataclass(frozen=True, kw_only=True)
class SparkCluster:
    """A cluster. Its processes use ``environment``, which has no PYTHONPATH, and ``folder``."""

    master: str
    python: Path
    environment: dict[str, str]
    folder: Path


@contextmanager
def running_cluster(folder: Path, memory: str = "1g") -> Iterator[SparkCluster]:
    """Run a master and two workers with one core each; end all of them afterwards."""
    environment = {
        "PATH": os.environ["PATH"],
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }
    if "JAVA_HOME" in os.environ:
        environment["JAVA_HOME"] = os.environ["JAVA_HOME"]
    with ExitStack() as stack:

        def start(name: str, *words: str) -> Path:
            return stack.enter_context(_running(folder / name, environment, words))

        master = _read_address(start("master", "master.Master", "--host", "127.0.0.1", *FREE_PORTS))
        for name in ("one", "two"):
            sizes = ("--cores", "1", "--memory", memory, "--work-dir", str(folder / name))
            start(name, "worker.Worker", "--host", "127.0.0.1", *FREE_PORTS, *sizes, master)
        yield SparkCluster(
            master=master,
            python=_make_python(folder / "python"),
            environment=environment,
            folder=folder,
        )


@contextmanager
def running_connect(cluster: SparkCluster, jars: str = "") -> Iterator[str]:
    """Run a server of Spark Connect with all cores of the cluster, and yield its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        **CLUSTER_SETTINGS,
        # A task that runs twice would send its load twice.
        **LOAD_SETTINGS,
        "spark.jars": jars,
    }
    confs = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    words = ("--master", cluster.master, *confs, "--class", CONNECT_CLASS, "spark-internal")
    # A server of Spark Connect chooses the Python of its tasks, and its memory, by variables only.
    own = {"PYSPARK_PYTHON": str(cluster.python), "SPARK_DAEMON_MEMORY": "1g"}
    environment = cluster.environment | own
    with _running(cluster.folder / f"connect-{port}", environment, ("SparkSubmit", *words)) as log:
        _wait_for_port(port, log)
        yield f"sc://127.0.0.1:{port}"


def _wait_for_port(port: int, log: Path) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace"))


@contextmanager
def _running(folder: Path, environment: dict[str, str], words: tuple[str, ...]) -> Iterator[Path]:
    folder.mkdir()
    log = folder / "log"
    name, *arguments = words
    program = find_spark_home(None, os.environ) / "bin/spark-class"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [program, f"org.apache.spark.deploy.{name}", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(30)
        finally:
            # An executor is in the process group of its worker.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def _read_address(log: Path) -> str:
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        found = re.search(r"spark://[\d.]+:\d+", log.read_text(errors="replace"))
        if found is not None:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace"))


def _make_python(folder: Path) -> Path:
    """Create a Python environment with only the modules that a job needs."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in MODULES:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        (packages / name).symlink_to(Path(spec.origin).parent)
    return folder / "bin/python"
