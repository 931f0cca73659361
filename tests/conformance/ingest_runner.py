"""A process that runs ingests, each of which can be held just before it creates its commit.

``python -m tests.conformance.ingest_runner WAY`` reads an order from each line of standard input,
and prints ``holding`` if an ingest is held, until a line arrives, and its outcome at its end.
"""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.replay.plain_files import LocalFiles
from authorizerd.replay.plans import IngestPlan

PLAIN: Final = "without Spark"
SPARK: Final = "Spark"
REMOTE: Final = "Spark Connect"
WAYS: Final = (PLAIN, SPARK, REMOTE)
_HOLDING: Final = "holding"


class Order(msgspec.Struct):
    """An ingest of ``logs`` into ``table``; both are paths."""

    logs: list[str]
    table: str
    is_held: bool = False


class Outcome(msgspec.Struct):
    """The exit code of an ingest, and its output, or its error."""

    code: int
    said: str


class Runner:
    """The runner of one way, in a process of its own."""

    def __init__(self, way: str, url: str, archive: Path, folder: Path) -> None:
        variables = {"PYSPARK_PYTHON": sys.executable}
        if way == REMOTE:
            variables = {"SPARK_REMOTE": url, "PYTHONPATH": str(archive)}
        self._log = open(folder / f"{way}.log", "wb")  # noqa: SIM115 - ``stop`` closes it
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.ingest_runner", way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=Path(__file__).parents[2],
            env={**os.environ, **variables},
            text=True,
        )

    def start(self, order: Order) -> None:
        self._send(msgspec.json.encode(order).decode())

    def is_held(self) -> bool:
        """Wait until the ingest is held; return False if it ends without coming to its commit."""
        self._line = self._read()
        return self._line == _HOLDING

    def release(self) -> None:
        self._send("")

    def wait(self) -> Outcome:
        """Return the outcome."""
        line = self._read() if self._line in ("", _HOLDING) else self._line
        self._line = ""
        return msgspec.json.decode(line, type=Outcome)

    def stop(self) -> None:
        self._process.communicate("")
        self._log.close()

    _line = ""

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the runner has ended: see {self._log.name}"
        return line.removesuffix("\n")


def run_orders(way: str) -> None:
    """Carry out all orders."""
    run = _new_run(way)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        order = msgspec.json.decode(line, type=Order)
        said = io.StringIO()
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            _holding(order, answers),
        ):
            try:
                code = run(order)
            except Exception as error:  # noqa: BLE001 - the test judges it
                code = 1
                said.write(str(error))
        answers.write(msgspec.json.encode(Outcome(code, said.getvalue())).decode() + "\n")
        answers.flush()


def _new_run(way: str) -> Callable[[Order], int]:
    if way == PLAIN:
        from authorizerd.replay.cli import main

        return lambda order: main(["ingest", "--input", *order.logs, "--out", order.table])
    from authorizerd.replay.application import run_plan
    from authorizerd.replay.spark.session import send_code, session_builder

    builder = session_builder("runner")
    if way == SPARK:
        builder = builder.master("local[1]")
        builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
        builder = builder.config("spark.sql.shuffle.partitions", "1")
    spark = builder.getOrCreate()
    if way == REMOTE:
        send_code(spark)

    def run(order: Order) -> int:
        uris = tuple(Path(log).as_uri() for log in order.logs)
        return run_plan(spark, IngestPlan(inputs=uris, out=Path(order.table).as_uri()))

    return run


@contextlib.contextmanager
def _holding(order: Order, answers: Any) -> Iterator[None]:  # noqa: ANN401 - a text stream
    """Hold each creation of a file until a line arrives."""
    from authorizerd.replay.spark.storage import ServerFiles

    kinds = (LocalFiles, ServerFiles)
    creates = [kind.create for kind in kinds]

    def hold(create: Callable[..., bool]) -> Callable[..., bool]:
        def hold_and_create(*arguments: object) -> bool:
            answers.write(f"{_HOLDING}\n")
            answers.flush()
            sys.stdin.readline()
            return create(*arguments)

        return hold_and_create

    if order.is_held:
        for kind, create in zip(kinds, creates, strict=True):
            setattr(kind, "create", hold(create))  # noqa: B010 - mypy refuses an assignment
    try:
        yield
    finally:
        for kind, create in zip(kinds, creates, strict=True):
            setattr(kind, "create", create)  # noqa: B010 - as above


if __name__ == "__main__":
    run_orders(sys.argv[1])
