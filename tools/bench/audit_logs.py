"""Generate audit logs of any length, like those of a busy broker.

**Invariant:** each line is what Kafka's audit logger writes for a real decision by the ACLs of its
``Traffic``, so a what-if of the same ACLs must find no difference. Every run writes the same log.
``first`` is the number of a log's first line, from which its times and its draws follow: logs with
consecutive lines together are one log. As in production, a few tuples account for most lines.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import pyarrow

from authorizerd.acl.audit.line import LOGGER_NAME, audit_level, audit_message
from authorizerd.acl.decision import AuthorizerSettings, explain
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Acl, Operation, PatternType, Question, ResourceType
from tools.bench.sets import allow, kind, number_acls

LINES_PER_SECOND: Final = 1000
"""Lines per second of traffic: 5 million lines cover 83 minutes."""

_BEGIN_S: Final = 1_760_000_000
_LINES_PER_CHUNK: Final = 100_000
_SEED: Final = 290
# A prime, so that its multiples reach every topic, in a scattered order.
_STRIDE: Final = 7919
_TOPICS: Final = 10_000
_USERS: Final = 500
_TEAMS: Final = 40
_SERVICES: Final = 3000
_TEAM_TOPICS: Final = 8009
_HOSTS: Final = 60_000
_DENIED_EVERY: Final = 16
_ASKED: Final = (
    (Operation.READ, ResourceType.TOPIC, "Fetch"),
    (Operation.DESCRIBE, ResourceType.TOPIC, "Metadata"),
    (Operation.WRITE, ResourceType.TOPIC, "Produce"),
    (Operation.READ, ResourceType.GROUP, "JoinGroup"),
    (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "InitProducerId"),
)
_OPERATIONS: Final = (Operation.READ, Operation.DESCRIBE, Operation.READ, Operation.WRITE)
_REQUESTS: Final = ("Fetch", "Metadata", "OffsetFetch", "Produce")


@dataclass(frozen=True)
class Traffic:
    """The ACLs of brokers, and the requests that they decide.

    ``ask`` returns the question of a number, and the request that asks it. The n-th question occurs
    ``n ** skew`` times less often than the first of ``distinct``. ``candidate`` has fewer ACLs.
    """

    name: str
    acls: tuple[Acl, ...]
    candidate: tuple[Acl, ...]
    ask: Callable[[int], tuple[Question, str]]
    distinct: int
    skew: float


def _ask_of_kind(number: int) -> tuple[Question, str]:
    topic = number * _STRIDE % _TOPICS
    # On a topic, ``kind`` allows only users topic % 500, so every eighth decision is a denial.
    user = topic % _USERS if number % 8 else (topic + 1) % _USERS
    role = "w" if number % 4 == 3 else "u"
    return (
        Question(
            f"User:{role}{user}",
            # The names repeat after 10,000 numbers; the hosts keep the tuples distinct.
            f"10.{number >> 14 & 255}.{number >> 7 & 127}.{number % 250 + 1}",
            _OPERATIONS[number % 4],
            ResourceType.TOPIC,
            f"topic-{topic:05d}",
        ),
        _REQUESTS[number % 4],
    )


def _ask_of_teams(number: int) -> tuple[Question, str]:
    # Multiplicative hashing spreads neighbouring numbers over services and hosts.
    mixed = number * 2_654_435_761 % 2**32
    service, host = mixed % _SERVICES, (mixed >> 8) % _HOSTS
    operation, resource_type, request = _ASKED[number % len(_ASKED)]
    topic = number * _STRIDE % _TEAM_TOPICS
    other = "x-" if (mixed >> 4) % _DENIED_EVERY == 0 else ""
    return (
        Question(
            f"User:svc-{service}",
            f"10.{host >> 8}.{host & 255}.{host % 250 + 1}",
            operation,
            resource_type,
            f"{other}team{service % _TEAMS}-{('orders', 'payments', 'clicks')[topic % 3]}-{topic}",
        ),
        request,
    )


def kind_traffic() -> Traffic:
    """Return few distinct requests to ``kind``; the candidate lacks every tenth user's ACLs."""
    acls = tuple(kind().acls())
    kept = tuple(acl for acl in acls if int(acl.principal[len("User:u") :]) % 10)
    return Traffic("kind", acls, kept, _ask_of_kind, 200_000, 1.0)


def team_traffic() -> Traffic:
    """Return many distinct requests of services, each with the prefix of its team.

    The candidate lacks an ACL of fifty.
    """
    acls = tuple(
        allow(f"team{service % _TEAMS}-", f"User:svc-{service}", Operation.ALL,
              PatternType.PREFIXED, resource_type=resource_type)
        for service in range(_SERVICES)
        for resource_type in (
            ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
        )
    )  # fmt: skip
    kept = tuple(acl for number, acl in enumerate(acls) if number % 50)
    return Traffic("teams", acls, kept, _ask_of_teams, 1_500_000, 0.8)


TRAFFIC: Final[dict[str, Callable[[], Traffic]]] = {"kind": kind_traffic, "teams": team_traffic}


@lru_cache(1)
def _messages(name: str, distinct: int) -> tuple[list[str], list[float]]:
    """Return the levels and texts of the distinct decisions, and their cumulative weights."""
    traffic = TRAFFIC[name]()
    snapshot, settings = build(number_acls(traffic.acls)), AuthorizerSettings()
    texts = []
    for number in range(distinct):
        question, request = traffic.ask(number)
        decision = explain(snapshot, settings, question)
        level = audit_level(decision.allowed).name
        texts.append(f"{level} {audit_message(question, decision, request)} ({LOGGER_NAME})")
    # Cumulative, because ``choices`` would otherwise add them up for every chunk.
    weights = accumulate((number + 1) ** -traffic.skew for number in range(distinct))
    return texts, list(weights)


def audit_lines(name: str, lines: int, distinct: int, first: int = 0) -> Iterator[Sequence[str]]:
    """Yield the lines of a ``TRAFFIC`` in chunks, without line feeds; times are UTC, ascending."""
    texts, weights = _messages(name, distinct)
    drawn = random.Random(_SEED + first)  # noqa: S311 - the same log in every run
    second, shown = -1, ""
    for start in range(0, lines, _LINES_PER_CHUNK):
        count = min(_LINES_PER_CHUNK, lines - start)
        chosen = drawn.choices(texts, cum_weights=weights, k=count)
        chunk = []
        for place, text in enumerate(chosen, first + start):
            # Format the time once per second instead of once per line.
            if place // LINES_PER_SECOND != second:
                second = place // LINES_PER_SECOND
                shown = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(_BEGIN_S + second))
            millisecond = place % LINES_PER_SECOND * 1000 // LINES_PER_SECOND
            chunk.append(f"[{shown},{millisecond:03d}] {text}")
        yield chunk


def write_audit_log(path: Path, name: str, lines: int, distinct: int, first: int = 0) -> None:
    """Write an audit log of ``lines`` lines, with Zstandard if the name ends with ``.zst``."""
    codec = "zstd" if path.suffix == ".zst" else None
    with pyarrow.output_stream(str(path), compression=codec) as file:
        for chunk in audit_lines(name, lines, distinct, first):
            file.write(("\n".join(chunk) + "\n").encode())


def write_audit_logs(
    folder: Path, name: str, lines: int, lines_each: int, processes: int, distinct: int,
    suffix: str = ".log",
) -> list[Path]:  # fmt: skip
    """Write ``lines`` lines as logs of ``lines_each``; return their paths in order."""
    folder.mkdir(parents=True, exist_ok=True)
    begins = range(0, lines, lines_each)
    paths = [folder / f"audit-{begin:011d}{suffix}" for begin in begins]
    counts = [min(lines_each, lines - begin) for begin in begins]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        # Consume the results: this raises the errors of the processes.
        written = pool.map(write_audit_log, paths, repeat(name), counts, repeat(distinct), begins)
        list(written)
    return paths
