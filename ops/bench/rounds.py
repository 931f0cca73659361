"""Measure servers in turn, in several rounds, so that other work affects all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import TypeVar

from ops.bench import opa_peer
from ops.bench.figures import Absent, Line, make_peer
from ops.bench.http_surface import Server
from ops.bench.processes import ProcessError

T = TypeVar("T")


def measure_in_turn(
    rounds: int, servers: Sequence[Server | Absent], measure: Callable[[Server], T]
) -> list[list[T] | Absent]:
    """Measure the servers in turn; return each one's figures. The first server is our daemon.

    Raises:
        ProcessError: our server failed. A peer that fails is only left out.
    """
    found: list[list[T] | Absent] = [
        server if isinstance(server, Absent) else [] for server in servers
    ]
    for _ in range(rounds):
        for number, server in enumerate(servers):
            figures = found[number]
            if isinstance(server, Absent) or isinstance(figures, Absent):
                continue
            try:
                figures.append(measure(server))
            except ProcessError as error:
                if server.surface.name != opa_peer.NAME:
                    raise
                found[number] = Absent(str(error))
    return found


def compare(
    what: str,
    unit: str,
    ours: Sequence[T],
    theirs: Sequence[T] | Absent,
    pick: Callable[[T], float],
    *,
    more_is_better: bool = False,
    of: Callable[[Iterator[float]], float] = median,
) -> Line:
    """Return one line, which compares the medians of the rounds."""

    def pick_all(rounds: Sequence[T]) -> float:
        return of(map(pick, rounds))

    return Line(
        what=what,
        unit=unit,
        ours=pick_all(ours),
        peer=make_peer(opa_peer.NAME, theirs, pick_all),
        more_is_better=more_is_better,
    )


def compare_rounds(
    what: str,
    unit: str,
    ours: Sequence[T],
    theirs: Sequence[T] | Absent,
    pick: Callable[[T], float],
    *,
    more_is_better: bool = False,
) -> Iterator[Line]:
    """Yield three lines: the rounds' medians, their lowest figures and their highest."""
    for name, of in (("", median), (", lowest round", min), (", highest round", max)):
        yield compare(
            f"{what}{name}", unit, ours, theirs, pick, more_is_better=more_is_better, of=of
        )
