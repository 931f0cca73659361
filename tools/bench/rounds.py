"""Measure servers in turn, in several rounds, so that other work affects all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Protocol, TypeVar

from tools.bench.figures import Absent, Line, Peer, make_peer, supported_percent
from tools.bench.http_generator import PYTHON, generator_for
from tools.bench.http_surface import Asked, Load, Server, ServerFigures
from tools.bench.processes import ProcessError

T = TypeVar("T")
Rounds = list[T] | Absent
"""One server's figures, one for each round, or the reason why there are none."""

COLD: Final = Load(connections=16, each=1)
"""The first load after a start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpExtent:
    """The loads and rounds, the seconds of each and of the warm-up before it, and our settings."""

    rounds: int
    seconds: float
    warm_up: float
    cold_seconds: float
    loads: Sequence[Load] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


class HttpRounds:
    """Ask servers the same questions over HTTP, in turn.

    Args:
        expected: an A or a D for each of the first questions: those that are checked.
    """

    def __init__(self, asked: Asked, expected: str, extent: HttpExtent) -> None:
        self.asked: Final = asked
        self.extent: Final = extent
        self._expected: Final = expected

    def check(self, *servers: Server | Absent) -> None:
        """Raise DisagreementError if a server gives an unexpected answer."""
        for server in servers:
            if isinstance(server, Server):
                server.check(self.asked.questions[: len(self._expected)], self._expected)

    def measure(self, load: Load, *servers: Server | Absent) -> list[Rounds[ServerFigures]]:
        """Return each server's figures. A load of the same kind, which warms up, precedes them."""
        extent = self.extent
        if extent.warm_up:
            self._drive(load, extent.warm_up, 1, servers)
        return self._drive(load, extent.seconds, extent.rounds, servers)

    def _drive(
        self, load: Load, seconds: float, rounds: int, servers: Sequence[Server | Absent]
    ) -> list[Rounds[ServerFigures]]:
        return measure_in_turn(
            rounds, servers, lambda server: server.drive(self.asked, load, seconds)
        )

    def measure_cold(
        self, what: str, ours: Server, peer_name: str, theirs: Server | Absent
    ) -> Iterator[Line]:
        """Yield the lines of the first seconds of new servers, which nobody has asked anything."""
        seconds = self.extent.cold_seconds
        our, their = self._drive(COLD, seconds, 1, (ours, theirs))
        where = f"{what}, {COLD}, the first {seconds:g} s after a start"
        yield from compare_loads(where, our, peer_name, their)

    def name(self, what: str, load: Load) -> str:
        """Return a load's name; it names the generator unless that is wrk."""
        is_python = generator_for(self.extent.seconds) == PYTHON
        return f"{what}, {load}" + (f" ({PYTHON})" if is_python else "")


class Measurable(Protocol):
    """A server; a peer may fail."""

    @property
    def is_peer(self) -> bool: ...


S = TypeVar("S", bound=Measurable)


def measure_in_turn(
    rounds: int, servers: Sequence[S | Absent], measure: Callable[[S], T]
) -> list[Rounds[T]]:
    """Measure the servers in turn; return each one's figures.

    Raises:
        ProcessError: a server of ours failed. A peer that fails is only left out.
    """
    found: list[Rounds[T]] = [server if isinstance(server, Absent) else [] for server in servers]
    for _ in range(rounds):
        for number, server in enumerate(servers):
            figures = found[number]
            if isinstance(server, Absent) or isinstance(figures, Absent):
                continue
            try:
                figures.append(measure(server))
            except ProcessError as error:
                if not server.is_peer:
                    raise
                found[number] = Absent(str(error))
    return found


def compare(
    what: str,
    unit: str,
    ours: Rounds[T],
    peer_name: str,
    theirs: Rounds[T] | None,
    pick: Callable[[T], float],
    *,
    more_is_better: bool = False,
) -> Line:
    """Return one line: the medians of the rounds, each with the lowest and the highest."""
    assert not isinstance(ours, Absent), ours.reason
    figures = [*map(pick, ours)]
    return Line(
        what=what,
        unit=unit,
        ours=median(figures),
        spread=(min(figures), max(figures)),
        peer=None if theirs is None else _compare_peer(peer_name, theirs, pick),
        more_is_better=more_is_better,
    )


def _compare_peer(name: str, theirs: Rounds[T], pick: Callable[[T], float]) -> Peer:
    if isinstance(theirs, Absent):
        return make_peer(name, theirs, pick)
    figures = [*map(pick, theirs)]
    return Peer(name, median(figures), spread=(min(figures), max(figures)))


def compare_loads(
    what: str, ours: Rounds[ServerFigures], peer_name: str, theirs: Rounds[ServerFigures] | None
) -> Iterator[Line]:
    """Yield the lines of one load: rates, latencies, and refusals if there are any."""
    for shown, pick in (
        ("decisions", lambda figures: figures.decisions_per_second),
        ("decisions a CPU-second", lambda figures: figures.decisions_per_cpu_second),
    ):
        yield compare(f"{what}: {shown}", "/s", ours, peer_name, theirs, pick, more_is_better=True)
    yield from compare_latencies(what, ours, peer_name, theirs, lambda figures: figures.load)
    every = [ours, [] if theirs is None else theirs]
    if any(each.load.refused for rounds in every if isinstance(rounds, list) for each in rounds):
        yield compare(
            f"{what}: refused in a round", "", ours, peer_name, theirs,
            lambda figures: figures.load.refused,
        )  # fmt: skip


class Timed(Protocol):
    """Latencies: ``timed`` is the number of samples."""

    @property
    def timed(self) -> int: ...

    def at(self, percent: int) -> float: ...


def compare_latencies(
    what: str,
    ours: Rounds[T],
    peer_name: str,
    theirs: Rounds[T] | None,
    pick: Callable[[T], Timed],
) -> Iterator[Line]:
    """Yield a line for each percentile that all rounds of both sides support."""
    sides = [
        [pick(figures) for figures in rounds]
        for rounds in (ours, theirs)
        if isinstance(rounds, list)
    ]
    for percent in percents(*sides):

        def pick_percentile(figures: T, percent: int = percent) -> float:
            return pick(figures).at(percent)

        yield compare(f"{what}: p{percent}", "ms", ours, peer_name, theirs, pick_percentile)


def percents(*sides: Sequence[Timed]) -> list[int]:
    """Return the median and the highest percentile that every round of every side supports."""
    samples = min(report.timed for reports in sides for report in reports)
    return sorted({50, supported_percent(samples)})
