"""``authorizerd verify`` in parts, as the tasks of a Spark job run it, but without Spark."""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from authorizerd.acl.decision import DefaultRule
from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.releases import Release
from authorizerd.replay.plans import LineLayout, VerifyPlan
from authorizerd.replay.verify import parts, sums
from authorizerd.replay.verify.causes import Delay
from authorizerd.replay.verify.judging import Judge, unpack_judge
from authorizerd.replay.verify.log_states import read_history
from authorizerd.replay.verify.parts import (
    FIGURES,
    RESULT,
    Figures,
    JudgedParts,
    JudgedRow,
    LineRow,
    Packed,
    count_lines,
    find_begins,
    find_clock_rows,
    judge_parts,
    merge_rows,
    unpack_figures,
    unpack_sums,
)
from tests.ops.replay.verify.both_engines import (
    BAD_LINES,
    FAULTS,
    check_engines,
    random_steps,
    submit_to,
    write_random_logs,
)
from tests.ops.replay.verify.scripted_broker import (
    END_S,
    SETTINGS,
    STEPS,
    make_line,
    write_history,
)
from tests.support.acls import question
from tests.support.fixture_types import Capture, MonkeyPatch
from tests.support.sizes import size

T = TypeVar("T")
DENIED = str(DefaultRule.DEFAULT_DENY)


def cut(chance: random.Random, whole: Sequence[T]) -> list[Sequence[T]]:
    """Return parts of a sequence, in order."""
    places = sorted(chance.choices(range(len(whole) + 1), k=3))
    return [whole[begin:end] for begin, end in pairwise((0, *places, len(whole)))]


def run_in_parts(chance: random.Random, plan: VerifyPlan) -> int:
    """Run a job whose tasks get random blocks of lines, and then random buckets."""
    judge = unpack_judge(plan.judge)
    rows: list[Packed] = []
    for path in plan.logs.inputs:
        for number, block in enumerate(cut(chance, Path(path).read_bytes().split(b"\n")[:-1])):
            lines = (LineRow(line, path, number, None) for line in block)
            rows += count_lines(lines, judge, plan.logs.layout)
    chance.shuffle(rows)
    figures = unpack_figures(row for row in rows if row.bucket == FIGURES)
    buckets: defaultdict[int, list[Packed]] = defaultdict(list)
    for row in rows:
        if row.bucket != FIGURES:
            buckets[row.bucket].append(row)
    tasks = cut(chance, list(buckets.values()))

    def judge_all(clocks: Mapping[str, int]) -> Iterator[JudgedRow]:
        for task in tasks:
            of_task = chain.from_iterable(task)
            yield from judge_parts(of_task, judge, find_begins(figures), clocks)

    delays = (Delay._make(each[:4]) for each in judge_all({}) if each.sums is None)
    clocks = dict(find_clock_rows(delays))
    (merged,) = merge_rows(each for each in judge_all(clocks) if each.sums is not None)
    Path(plan.out).mkdir()
    result = JudgedParts(figures, unpack_sums(merged))
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
    monkeypatch.setattr(parts, "BUCKETS", chance.choice((1, 50)))
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


def test_lines_of_a_file_are_numbered_over_its_blocks_and_records_by_offset(
    tmp_path: Path,
) -> None:
    history = read_history(write_history(tmp_path, STEPS, END_S))
    judge = Judge(history, KnownSettings(frozenset(), False), tuple(Release), 5_000)
    rows = [
        LineRow(make_line(at_s, asked, DENIED, allowed=True).encode(), file, block, number)
        for at_s, asked, file, block, number in (
            (20, question(topic="x"), "t/3@", 0, 7), (30, question(topic="x"), "t/3@", 0, 11),
            (20, question(topic="y"), "file:///a%20b", 9, None),
        )
    ]  # fmt: skip
    counted = sorted(count_lines(rows, judge, LineLayout()))
    figures = [Figures("/a b", 0, "", "", False, 5, 0, 0), *unpack_figures(counted[:2])]
    (found,) = judge_parts(counted[2:], judge, find_begins(figures), {})
    (group,) = unpack_sums(found).differences
    assert [each.line for each in group.listed] == ["t/3@7", "/a b:6"]
