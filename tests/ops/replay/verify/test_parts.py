"""``authorizerd verify`` in parts, as the tasks of a Spark job run it, but without Spark."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.releases import Release
from authorizerd.replay.plans import VerifyPlan
from authorizerd.replay.verify import parts, sums
from authorizerd.replay.verify.causes import Delay, find_clocks
from authorizerd.replay.verify.judging import Judge, unpack_judge
from authorizerd.replay.verify.log_states import read_history
from authorizerd.replay.verify.parts import (
    RESULT,
    CountedPart,
    Figures,
    JudgedParts,
    Lines,
    count_lines,
    find_begins,
    judge_parts,
)
from authorizerd.replay.verify.sums import Sums, merge_sums
from tests.ops.replay.verify.both_engines import (
    BAD_LINES,
    FAULTS,
    check_engines,
    random_steps,
    submit_to,
    write_random_logs,
)
from tests.ops.replay.verify.scripted_broker import SETTINGS, write_history
from tests.support.fixture_types import Capture, MonkeyPatch
from tests.support.sizes import size

T = TypeVar("T")


def cut(chance: random.Random, whole: Sequence[T]) -> list[Sequence[T]]:
    """Return parts of a sequence, in order."""
    places = sorted(chance.choices(range(len(whole) + 1), k=3))
    return [whole[begin:end] for begin, end in pairwise((0, *places, len(whole)))]


def group(rows: Iterable[T], key: Callable[[T], Any]) -> dict[Any, list[T]]:
    found: dict[Any, list[T]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def add_up(rows: Sequence[CountedPart]) -> tuple[Any, ...]:
    """Return the figures of rows; as in SQL, lines without an event have no times."""
    lines = sum(row.lines for row in rows)
    if rows[0].reason is not None:
        return lines, None, None
    return lines, min(row.first_ms for row in rows), max(row.last_ms for row in rows)


def run_in_parts(chance: random.Random, plan: VerifyPlan) -> int:
    """Run a job whose tasks get random blocks of lines, and then random requests."""
    judge = unpack_judge(plan.judge)
    rows: list[CountedPart] = []
    for path in plan.logs.inputs:
        for number, block in enumerate(cut(chance, Path(path).read_bytes().split(b"\n")[:-1])):
            pieces = cut(chance, block)
            begins = accumulate(map(len, pieces), initial=0)
            lines = [
                Lines(path, number, *each) for each in zip(begins, map(list, pieces), strict=False)
            ]
            rows += chain.from_iterable(count_lines(lines, judge, plan.logs.layout))
    chance.shuffle(rows)
    of_figures = group(rows, lambda row: (row.file, row.block, row.reason, row.level, row.allowed))
    figures = [Figures._make((*key, *add_up(some))) for key, some in of_figures.items()]
    events = [
        CountedPart._make((*key, *add_up(some), *min((row.block, row.line) for row in some)))
        for key, some in group(rows, lambda row: row[:12]).items()
        if key[0] is None
    ]
    requests = list(group(events, lambda row: row[1:7]).values())
    tasks = cut(chance, requests)

    def judge_all(clocks: Mapping[str, int]) -> Iterator[Delay | Sums]:
        for task in tasks:
            of_task = chain.from_iterable(task)
            yield from judge_parts(of_task, judge, find_begins(figures), clocks)

    clocks = find_clocks(each for each in judge_all({}) if isinstance(each, Delay))
    merged = merge_sums(each for each in judge_all(clocks) if isinstance(each, Sums))
    result = JudgedParts(figures, len(requests), merged)
    Path(plan.out).mkdir()
    Path(plan.out, RESULT).write_bytes(msgspec.json.encode(result))
    return 0


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("seed", range(size(2, 20)))
def test_parts_give_the_report_of_one_process(
    seed: int, fault: str, tmp_path: Path, capsys: Capture, monkeypatch: MonkeyPatch
) -> None:
    """Also if a task judges a few cases at a time, and a report lists a few differences."""
    chance = random.Random(seed)
    monkeypatch.setattr(parts, "KEYS_MAX", chance.choice((3, 50)))
    monkeypatch.setattr(parts, "CASES_MAX", chance.choice((1, 50)))
    monkeypatch.setattr(sums, "LISTED_MAX", chance.choice((2, 1_000)))
    submit_to(monkeypatch, partial(run_in_parts, chance))
    log, logs = write_random_logs(chance, tmp_path, fault)
    found = check_engines(capsys, "--logs", logs, "--log-dir", log, *SETTINGS, *BAD_LINES)
    assert fault == "none" or fault in found


def test_pickled_judge_is_made_once(tmp_path: Path) -> None:
    """It has all states, also those with removals, and judges alike."""
    history = read_history(write_history(tmp_path, random_steps(random.Random(1), 60, 500), 600))
    judge = Judge(history, KnownSettings(frozenset({"User:x"}), None), tuple(Release), 5_000)
    found = pickle.loads(pickle.dumps(judge))
    assert found is pickle.loads(pickle.dumps(judge))
    assert (found.history, found.known, found.releases) == (history, judge.known, judge.releases)
    assert found.packed == judge.packed
