"""Generate audit logs of any length, like those of a busy broker.

**Invariant:** each line is what Kafka's audit logger writes for a real decision by the set
``kind``, so a what-if of the same ACLs must find no difference. Every run writes the same log.
``first`` is the number of a log's first line, from which its times and its draws follow: logs with
consecutive lines together are one log. As in production, a few tuples account for most lines: the
n-th occurs 1/n times as often as the first.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from itertools import accumulate, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import pyarrow

from authorizerd.acl.audit.line import LOGGER_NAME, audit_level, audit_message
from authorizerd.acl.decision import AuthorizerSettings, explain
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Operation, Question, ResourceType
from tools.bench.sets import kind

DISTINCT_MAX: Final = 200_000
LINES_PER_SECOND: Final = 1000
"""Lines per second of traffic: 5 million lines cover 83 minutes."""

_BEGIN_S: Final = 1_760_000_000
_LINES_PER_CHUNK: Final = 100_000
_SEED: Final = 290
# A prime, so that its multiples reach every topic, in a scattered order.
_STRIDE: Final = 7919
_TOPICS: Final = 10_000
_USERS: Final = 500
_OPERATIONS: Final = (Operation.READ, Operation.DESCRIBE, Operation.READ, Operation.WRITE)
_REQUESTS: Final = ("Fetch", "Metadata", "OffsetFetch", "Produce")


def _question(number: int) -> Question:
    topic = number * _STRIDE % _TOPICS
    # On a topic, ``kind`` allows only users topic % 500, so every eighth decision is a denial.
    user = topic % _USERS if number % 8 else (topic + 1) % _USERS
    role = "w" if number % 4 == 3 else "u"
    return Question(
        f"User:{role}{user}",
        # The names repeat after 10,000 numbers; the hosts keep the tuples distinct.
        f"10.{number >> 14 & 255}.{number >> 7 & 127}.{number % 250 + 1}",
        _OPERATIONS[number % 4],
        ResourceType.TOPIC,
        f"topic-{topic:05d}",
    )


@lru_cache(1)
def _messages(distinct: int) -> tuple[list[str], list[str]]:
    """Return the levels and the texts of the distinct decisions."""
    snapshot, settings = build(kind().added()), AuthorizerSettings()
    levels, texts = [], []
    for number in range(distinct):
        question = _question(number)
        decision = explain(snapshot, settings, question)
        levels.append(audit_level(decision.allowed).name)
        texts.append(audit_message(question, decision, _REQUESTS[number % 4]))
    return levels, texts


def audit_lines(
    lines: int, distinct: int = DISTINCT_MAX, first: int = 0
) -> Iterator[Sequence[str]]:
    """Yield the lines in chunks, without line feeds; their times are UTC and ascending."""
    levels, texts = _messages(distinct)
    # Cumulative, because ``choices`` would otherwise add them up for every chunk.
    weights = list(accumulate(1 / (number + 1) for number in range(distinct)))
    drawn = random.Random(_SEED + first)  # noqa: S311 - the same log in every run
    second, shown = -1, ""
    for start in range(0, lines, _LINES_PER_CHUNK):
        count = min(_LINES_PER_CHUNK, lines - start)
        chosen = drawn.choices(range(distinct), cum_weights=weights, k=count)
        chunk = []
        for place, number in enumerate(chosen, first + start):
            # Format the time once per second instead of once per line.
            if place // LINES_PER_SECOND != second:
                second = place // LINES_PER_SECOND
                shown = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(_BEGIN_S + second))
            millisecond = place % LINES_PER_SECOND * 1000 // LINES_PER_SECOND
            chunk.append(
                f"[{shown},{millisecond:03d}] {levels[number]} {texts[number]} ({LOGGER_NAME})"
            )
        yield chunk


def write_audit_log(path: Path, lines: int, distinct: int = DISTINCT_MAX, first: int = 0) -> None:
    """Write an audit log of ``lines`` lines, with Zstandard if the name ends with ``.zst``."""
    codec = "zstd" if path.suffix == ".zst" else None
    with pyarrow.output_stream(str(path), compression=codec) as file:
        for chunk in audit_lines(lines, distinct, first):
            file.write(("\n".join(chunk) + "\n").encode())


def write_audit_logs(
    folder: Path, lines: int, lines_each: int, processes: int, distinct: int = DISTINCT_MAX
) -> list[Path]:
    """Write ``lines`` lines as compressed logs of ``lines_each``; return their paths in order."""
    folder.mkdir(parents=True, exist_ok=True)
    begins = range(0, lines, lines_each)
    paths = [folder / f"audit-{begin:011d}.log.zst" for begin in begins]
    counts = [min(lines_each, lines - begin) for begin in begins]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        # Consume the results: this raises the errors of the processes.
        list(pool.map(write_audit_log, paths, counts, repeat(distinct), begins))
    return paths
