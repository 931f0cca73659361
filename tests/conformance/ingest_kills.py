"""An ingest that is cut off or killed at one of its steps.

``cut off``: from this step on, every change of the table's files fails, so that the table stays as
a crash at this moment would leave it. The other ways send a signal to a process of a real
``authorizerd replay ingest``.
"""

import contextlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from authorizerd.replay.cli import main
from authorizerd.replay.plans import IngestPlan
from tests.conformance.ingest_places import DISK, Place, Places
from tests.conformance.ingest_steps.sitecustomize import FOLDER, STEPS
from tests.support.daemon_process import wait_until

SECONDS_MAX = 300.0
CUT = "cut off"
PROCESSES = {
    "command": "authorizerd.cli.main",
    "jvm": "org.apache.spark.deploy.SparkSubmit",
    "driver": "authorizerd-replay.py",
    "worker": "pyspark.daemon",
    "executor": "CoarseGrainedExecutorBackend",
}
"""A text in the command line of each process, of which the last one that matches counts."""
WAYS = {
    CUT: None,
    **{
        f"{number.name} {role}": (role, number)
        for role in ("command", "jvm", "driver", "worker", "executor")
        for number in (signal.SIGKILL, signal.SIGTERM)
    },
}
_PACKAGE = Path(__file__).parent
_LOCAL = "local[1]"
_APART = "local-cluster[1,1,1024]"
"""An executor in a process of its own."""


class Ingest(NamedTuple):
    """An ingest of ``logs`` into a table."""

    place: Place
    table: str
    logs: tuple[Path, ...]
    overwrite: bool = False

    @property
    def uri(self) -> str:
        return f"{self.place.base}/{self.table}"

    def run(self, places: Places) -> str:
        """Run it in the session, or without one, and return what it printed."""
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = main(self.words()[5:]) if self.place.name == DISK else self._submit(places)
        assert code == 0, said.getvalue()
        return said.getvalue()

    def _submit(self, places: Places) -> int:
        from authorizerd.replay.ingest import job

        plan = IngestPlan(
            inputs=tuple(path.as_uri() for path in self.logs),
            out=self.uri,
            bad_ratio_max=1.0,
            overwrite=self.overwrite,
        )
        assert places.spark is not None
        return job.run(places.spark, plan)

    def words(self, *options: str) -> list[str]:
        """Return the command that runs it in processes of its own."""
        is_plain = self.place.name == DISK
        return [
            *(sys.executable, "-P", "-m", PROCESSES["command"], "replay"),
            *("ingest", "--input"),
            *(str(path) if is_plain else path.as_uri() for path in self.logs),
            *("--out", self.uri, "--max-bad-ratio", "1", *options),
            *(("--overwrite",) if self.overwrite else ()),
        ]


def spark_options(places: Places, ingest: Ingest, steps: Path, role: str) -> list[str]:
    """Return the options of a Spark of its own, whose steps are counted."""
    if ingest.place.name == DISK:
        return []
    settings = places.settings(ingest.place, steps)
    confs = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    master = _APART if role == "executor" else _LOCAL
    return ["--master", master, "--python", sys.executable, *confs]


def count_steps(places: Places, ingest: Ingest, steps: Path) -> list[str]:
    """Run an ingest to its end, and return its steps."""
    with following(places, steps, f"0 count /{ingest.table}"):
        ingest.run(places)
    return (steps / "trace").read_text().splitlines()


def cut_off(places: Places, ingest: Ingest, steps: Path, step: int) -> str:
    """Cut an ingest off at a step, and return its error."""
    with following(places, steps, f"{step} cut /{ingest.table}"):
        try:
            return ingest.run(places)
        except Exception as error:  # noqa: BLE001 - any error may be the end
            return str(error)


@contextlib.contextmanager
def following(places: Places, steps: Path, order: str) -> Iterator[None]:
    """Follow an order in this process, and in the JVM of the session."""
    steps.mkdir()
    (steps / "order").write_text(order)
    places.arm(steps)
    STEPS.arm(steps)
    try:
        yield
    finally:
        STEPS.arm(None)
        places.arm(None)


def kill(places: Places, ingest: Ingest, steps: Path, step: int, way: str) -> str:
    """Run an ingest in processes of its own, and send a signal to one of them at a step.

    Return what it printed, after all of its processes have ended.
    """
    killed = WAYS[way]
    assert killed is not None
    role, number = killed
    steps.mkdir()
    (steps / "order").write_text(f"{step} kill /{ingest.table}")
    if ingest.place.name == "s3":
        STEPS.arm(steps)  # the proxy is in this process
    variables = {FOLDER: str(steps), "PYTHONPATH": str(_PACKAGE / "ingest_steps")}
    process = subprocess.Popen(
        ingest.words(*spark_options(places, ingest, steps, role)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **variables, "TMPDIR": str(steps), "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    try:
        wait_until(
            lambda: (steps / "reached").exists() or process.poll() is not None,
            "the step is reached", SECONDS_MAX, 0.005,
        )  # fmt: skip
        started = list_processes(process.pid)
        for pid in find_process(started, role):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        (steps / "go").touch()
        said = process.communicate(timeout=SECONDS_MAX)[0]
        wait_until(
            lambda: not any(map(is_running, started)), "all processes end", SECONDS_MAX, 0.02
        )
    finally:
        STEPS.arm(None)
        process.kill()
        process.wait()
    return said


def list_processes(process: int) -> list[int]:
    """Return a process and its descendants."""
    found = [process]
    for each in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{each}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def find_process(processes: list[int], role: str) -> list[int]:
    """Return the processes of a role, or the driver if there is none yet."""
    if role == "command":
        return processes[:1]
    found = [pid for pid in processes if _role_of(pid) == role]
    if found or role == "driver":
        return found
    return find_process(processes, "driver")


def is_running(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def _role_of(pid: int) -> str | None:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return None
    return next((role for role, text in PROCESSES.items() if text in line), None)
