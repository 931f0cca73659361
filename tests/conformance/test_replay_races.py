"""Two ingests at once into one table, on Spark, by Spark Connect and without Spark.

``WHOLE=1`` tries 50 rounds.
"""

import os
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from authorizerd.replay.submit.files import make_archive
from tests.conformance.ingest_model import (
    Line,
    expect_content,
    find_left,
    make_lines,
    read_content,
    write_log,
)
from tests.conformance.ingest_runner import WAYS, Order, Outcome, Runner
from tests.end_to_end.spark_cluster import SparkCluster, running_connect
from tests.support.sizes import size
from tests.support.spark import require_spark

ROUNDS = size(8, 50)
ROUNDS_A_TABLE = 10
NAMES = ("first", "second")
FREE, BOTH = "none", "both"
TIMINGS = (FREE, BOTH, *NAMES)
"""Which of the two are held just before their commits."""
CONFLICT = "in the meantime, so this one changed nothing: run it again"


class Round(NamedTuple):
    """The ways of both ingests, the logs of each, and which of them are held."""

    ways: tuple[str, str]
    logs: tuple[tuple[int, ...], tuple[int, ...]]
    timing: str


@pytest.fixture(scope="module")
def runners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Runner]]]:
    """Two runners of each way."""
    require_spark()
    folder = tmp_path_factory.mktemp("connect")
    archive = make_archive()
    path = folder / archive.name
    path.write_bytes(archive.data)
    environment = {"PATH": os.environ["PATH"], "SPARK_LOCAL_IP": "127.0.0.1"}
    server = SparkCluster(
        master="local[2]", python=Path(sys.executable), environment=environment, folder=folder
    )
    with running_connect(server) as url:
        pairs = []
        for name in NAMES:
            (folder / name).mkdir()
            pairs.append({way: Runner(way, url, path, folder / name) for way in WAYS})
        yield pairs
        for runner in (runner for pair in pairs for runner in pair.values()):
            runner.stop()


class Table:
    """A table, and the lines that it should have."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "table"
        self.folder = folder
        self.lines: list[Line] = []
        self._logs: dict[int, list[Line]] = {}
        self._added: set[int] = set()

    def write_logs(self, rng: random.Random) -> None:
        """Write three new logs, and forget the earlier ones."""
        begin = len(self._added)
        self._logs = {begin + number: make_lines(rng, begin + number, 6) for number in range(3)}
        for number, lines in self._logs.items():
            write_log(self.folder / "logs" / f"{number}.log", lines)

    def order(self, logs: Iterable[int]) -> Order:
        paths = [str(self.folder / "logs" / f"{log}.log") for log in self._choose(logs)]
        return Order(paths, str(self.path))

    def check(self, logs: Iterable[int]) -> None:
        """Check that the table has these logs as well, and each of its events once."""
        for log in self._choose(logs):
            if log not in self._added:
                self._added.add(log)
                self.lines += self._logs[log]
        assert read_content(self.path) == expect_content(self.lines)

    def _choose(self, logs: Iterable[int]) -> list[int]:
        numbers = sorted(self._logs)
        return [numbers[log] for log in logs]


def run_round(played: Round, table: Table, runners: list[dict[str, Runner]]) -> str:
    """Run both ingests at once, then the one that lost again; return who won."""
    pair = [runners[place][way] for place, way in enumerate(played.ways)]
    outcomes = run_both(pair, [table.order(logs) for logs in played.logs], played.timing)
    won = [outcome.code == 0 for outcome in outcomes]
    assert any(won), outcomes
    assert played.timing == FREE or not all(won), outcomes
    assert all(outcome.code == 0 or CONFLICT in outcome.said for outcome in outcomes), outcomes
    table.check(
        [log for logs, has_won in zip(played.logs, won, strict=True) if has_won for log in logs]
    )
    for place, has_won in enumerate(won):
        if not has_won:
            pair[place].start(table.order(played.logs[place]))
            again = pair[place].wait()
            assert again.code == 0, again
    table.check([0, 1, 2])
    return " and ".join(name for name, has_won in zip(NAMES, won, strict=True) if has_won)


def run_both(pair: list[Runner], orders: list[Order], timing: str) -> list[Outcome]:
    """Run two ingests. One that is held has read the table before the other one commits."""
    held = [runner for runner, name in zip(pair, NAMES, strict=True) if timing in (BOTH, name)]
    for runner, order in zip(pair, orders, strict=True):
        order.is_held = runner in held
    of_runner = dict(zip(pair, orders, strict=True))
    for runner in held:
        runner.start(of_runner[runner])
    for runner in held:
        assert runner.is_held(), runner.wait()
    free = [runner for runner in pair if runner not in held]
    for runner in free:
        runner.start(of_runner[runner])
    outcomes = {runner: runner.wait() for runner in free}
    for runner in held:
        runner.release()
    outcomes |= {runner: runner.wait() for runner in held}
    return [outcomes[runner] for runner in pair]


def choose_round(rng: random.Random) -> Round:
    ways = rng.choice(WAYS), rng.choice(WAYS)
    logs = rng.choice([((0, 1), (1, 2)), ((0, 1, 2), (0, 1, 2)), ((0,), (1, 2)), ((0, 1, 2), (1,))])
    return Round(ways, logs, rng.choice(TIMINGS))


def test_of_two_ingests_at_once_each_event_is_added_once(
    runners: list[dict[str, Runner]], seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    failures: list[str] = []
    tried = Counter[str]()
    table = Table(tmp_path)
    for number in range(ROUNDS):
        if number % ROUNDS_A_TABLE == 0 or failures:
            table = Table(tmp_path / str(number))
        played = choose_round(rng)
        table.write_logs(rng)
        try:
            won = run_round(played, table, runners)
            tried.update((f"{played.timing} held: {won} won", " and ".join(sorted(played.ways))))
        except AssertionError as error:
            failures.append(f"round {number}: {played}: {error}")
            sys.stdout.write(f"FAILED {failures[-1]}\n")
        sys.stdout.write(f"{number}: {played}\n")
    sys.stdout.write(f"{dict(tried)}\n")
    assert not failures, "\n".join(failures)
    assert find_left(table.path) == []
