"""The parts of the benchmark, in the table's order, and their extent.

A part measures one thing against its peers, and needs nothing of the other parts. Parts share only
files: the logs of the sets, which the first part that needs one writes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Final

from authorizerd.acl.index.builder import build
from authorizerd.acl.releases import RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.snapshot import with_rules
from tests.kafka_rig import rig
from tools.bench import (
    authzen,
    creations,
    floods,
    following,
    log_ins,
    many_connections,
    openfga,
    replay_growth,
    scale,
    search,
    tls,
    workers,
)
from tools.bench.authzen import measure_http
from tools.bench.checkpoint import write_checkpoint
from tools.bench.creations import CreationPlan, measure_creations
from tools.bench.decisions import collect_answers, measure_decisions
from tools.bench.early_start import measure_early_start
from tools.bench.event_loop import measure_event_loop
from tools.bench.figures import Absent, Line
from tools.bench.floods import measure_floods
from tools.bench.following import measure_following
from tools.bench.growth import RESOURCES, Point, make_lines, make_panels, measure_growth
from tools.bench.kafka_peer import VERSION_WITH_RANGES, KafkaPeer, prepare
from tools.bench.loading import measure_loading
from tools.bench.log_ins import measure_log_ins
from tools.bench.many_connections import measure_many_connections
from tools.bench.openfga import measure_openfga
from tools.bench.plot import draw_panels
from tools.bench.replay import SIZES, measure_replay
from tools.bench.rounds import HttpExtent
from tools.bench.scale import measure_scale
from tools.bench.search import measure_searches
from tools.bench.sets import (
    QUESTIONS,
    AclSet,
    kind,
    kind_with_many_questions,
    ranges,
    wide,
    write_lines,
)
from tools.bench.snapshot_updates import measure_snapshot_updates
from tools.bench.stream import measure_stream
from tools.bench.tls import measure_tls
from tools.bench.workers import WorkersExtent, measure_worker_memory, measure_workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The extent of a run. Only the last of ``sets`` is loaded and updated."""

    sets: tuple[AclSet, ...]
    ranges: tuple[AclSet, ...]
    asked: AclSet
    decision_seconds: float
    updates: int
    crowd: int
    loads: int
    loops: int
    growth: tuple[int, ...]
    scale: scale.Extent
    many_connections: many_connections.Extent
    http: HttpExtent
    openfga: HttpExtent
    stream_seconds: float
    search: search.Extent
    workers: WorkersExtent
    tls: tls.Extent
    log_ins: log_ins.Extent
    floods: floods.Extent
    creations: CreationPlan
    following: following.Extent | None
    replay_lines: tuple[int, ...]
    replay_growth: tuple[int, ...]


FULL: Final = Plan(
    sets=(kind(), wide(5000, 10), wide(50_000, 10)),
    ranges=(ranges(0), ranges(10), ranges(1000)),
    asked=kind_with_many_questions(),
    decision_seconds=2.0,
    updates=10_000,
    crowd=100_000,
    loads=3,
    loops=3,
    growth=RESOURCES,
    scale=scale.FULL,
    many_connections=many_connections.FULL,
    http=authzen.FULL,
    openfga=openfga.FULL,
    stream_seconds=3.0,
    search=search.FULL,
    workers=workers.FULL,
    tls=tls.FULL,
    log_ins=log_ins.FULL,
    floods=floods.FULL,
    creations=creations.FULL,
    following=following.FULL,
    replay_lines=SIZES,
    replay_growth=replay_growth.LINES,
)
QUICK: Final = Plan(
    sets=(kind(), wide(1000, 2)),
    ranges=(ranges(10),),
    asked=kind(),
    decision_seconds=0.02,
    updates=100,
    crowd=100,
    loads=1,
    loops=1,
    growth=(1000, 2000),
    scale=scale.QUICK,
    many_connections=many_connections.QUICK,
    http=authzen.QUICK,
    openfga=openfga.QUICK,
    stream_seconds=0.1,
    search=search.QUICK,
    workers=workers.QUICK,
    tls=tls.QUICK,
    log_ins=log_ins.QUICK,
    floods=floods.QUICK,
    creations=creations.QUICK,
    following=None,
    replay_lines=(),
    replay_growth=(),
)


@dataclass(kw_only=True)
class Run:
    """One run: its plan, and what its parts share. Files are written below ``directory``.

    ``continues`` is True if a part that takes long may keep what an earlier run has measured.
    """

    plan: Plan
    directory: Path
    continues: bool = False
    _written: set[str] = field(default_factory=set)

    @cached_property
    def kafka(self) -> KafkaPeer:
        """Kafka's own authorizer, compiled when a part first needs it."""
        if self.plan is not FULL:
            return KafkaPeer(Absent("not in a quick run"))
        return prepare(self.directory.parent / "jvm")

    @cached_property
    def kafka_with_ranges(self) -> KafkaPeer:
        """The same of the release that reads ranges."""
        if self.plan is not FULL:
            return self.kafka
        return prepare(self.directory.parent / "jvm-ranges", VERSION_WITH_RANGES)

    @property
    def largest(self) -> AclSet:
        return self.plan.sets[-1]

    def log_of(self, acl_set: AclSet) -> Path:
        """Return a log directory with a checkpoint of the set."""
        log_dir = self.directory / acl_set.name
        if acl_set.name not in self._written:
            write_checkpoint(log_dir, acl_set.added())
            self._written.add(acl_set.name)
        return log_dir

    @cached_property
    def expected(self) -> str:
        """The answers to the first questions of the set that is asked over the network."""
        asked = self.plan.asked
        return collect_answers(build(asked.added()), [*asked.questions()][:QUESTIONS])


def _decisions(run: Run) -> Iterator[Line]:
    for acl_set in run.plan.sets:
        yield from _decide(run, acl_set, run.kafka, RULES_4_3)


def _ranges(run: Run) -> Iterator[Line]:
    for acl_set in run.plan.ranges:
        yield from _decide(run, acl_set, run.kafka_with_ranges, RULES_4_4)


def _decide(run: Run, acl_set: AclSet, peer: KafkaPeer, rules: ReleaseRules) -> Iterator[Line]:
    write_lines(acl_set, run.directory)
    snapshot = with_rules(build(acl_set.added()), rules)
    gc.freeze()  # as the daemon does once it has loaded
    yield from measure_decisions(acl_set, snapshot, peer, run.directory, run.plan.decision_seconds)


def _state(run: Run) -> Iterator[Line]:
    acl_set = run.largest
    write_lines(acl_set, run.directory)
    theirs = run.kafka.state(run.directory, acl_set.name)
    snapshot = build(acl_set.added())
    gc.freeze()
    yield from measure_snapshot_updates(
        snapshot,
        list(acl_set.added()),
        theirs,
        updates=run.plan.updates,
        crowd=run.plan.crowd,
    )
    # Free the set before other processes load it, too.
    del snapshot
    yield from measure_loading(run.log_of(acl_set), theirs, run.plan.loads)


def _event_loop(run: Run) -> Iterator[Line]:
    log_dir = run.log_of(run.largest)
    yield from measure_event_loop(log_dir, run.directory / "event-loop", rounds=run.plan.loops)


def _early_start(run: Run) -> Iterator[Line]:
    yield from measure_early_start(run.log_of(run.largest), run.directory / "early-start")


def _growth(run: Run) -> Iterator[Line]:
    """Yield the lines of each size, and write the plot."""
    points: list[Point] = []
    for point in measure_growth(
        run.kafka,
        run.directory,
        resources=run.plan.growth,
        updates=run.plan.updates,
        seconds=run.plan.decision_seconds / 3,
    ):
        points.append(point)
        yield from make_lines(point)
    (run.directory.parent / "growth.svg").write_text(draw_panels(make_panels(points)))


def _scale(run: Run) -> Iterator[Line]:
    """Yield the lines of each size, and write the plot after each."""
    points: list[scale.Point] = []
    for point in measure_scale(
        run.kafka, run.directory / "scale", run.plan.scale, continues=run.continues
    ):
        points.append(point)
        yield from scale.make_lines(point)
        plot = draw_panels(scale.make_panels(points))
        (run.directory.parent / scale.PLOT_NAME).write_text(plot)


def _many_connections(run: Run) -> Iterator[Line]:
    directory = run.directory / "many-connections"
    yield from measure_many_connections(directory, run.plan.many_connections)


def _http(run: Run) -> Iterator[Line]:
    asked = run.plan.asked
    directory = run.directory / "http"
    yield from measure_http(asked, run.expected, run.log_of(asked), directory, run.plan.http)


def _openfga(run: Run) -> Iterator[Line]:
    asked, directory = run.plan.asked, run.directory / "openfga"
    yield from measure_openfga(asked, run.log_of(asked), directory, run.plan.openfga)


def _stream(run: Run) -> Iterator[Line]:
    asked, seconds = run.plan.asked, run.plan.stream_seconds
    directory = run.directory / "stream"
    yield from measure_stream(asked, run.expected, run.log_of(asked), directory, seconds)


def _search(run: Run) -> Iterator[Line]:
    largest, directory = run.largest, run.directory / "search"
    yield from measure_searches(largest, run.log_of(largest), directory, run.plan.search)


def _workers(run: Run) -> Iterator[Line]:
    asked, directory = run.plan.asked, run.directory / "workers"
    yield from measure_workers(asked, run.log_of(asked), directory, run.plan.workers)
    yield from measure_worker_memory(run.largest, run.log_of(run.largest), directory)


def _tls(run: Run) -> Iterator[Line]:
    asked = run.plan.asked
    yield from measure_tls(asked, run.log_of(asked), run.directory / "tls", run.plan.tls)


def _log_ins(run: Run) -> Iterator[Line]:
    yield from measure_log_ins(run.directory / "log-ins", run.plan.log_ins)


def _floods(run: Run) -> Iterator[Line]:
    asked = run.plan.asked
    yield from measure_floods(asked, run.log_of(asked), run.directory / "floods", run.plan.floods)


def _creations(run: Run) -> Iterator[Line]:
    yield from measure_creations(run.directory, run.plan.creations)


def _following(run: Run) -> Iterator[Line]:
    if run.plan.following is not None:
        directory = run.directory / "following"
        yield from measure_following(rig.prepare(), directory, run.plan.following)


def _replay(run: Run) -> Iterator[Line]:
    if run.plan.replay_lines:
        log_dir = run.log_of(kind())
        yield from measure_replay(log_dir, run.directory, run.plan.replay_lines)


def _replay_growth(run: Run) -> Iterator[Line]:
    """Yield the lines of each size, and write the plot after each."""
    if not run.plan.replay_growth:
        return
    points: list[replay_growth.Point] = []
    for point in replay_growth.measure_replay_growth(run.directory, run.plan.replay_growth):
        points.append(point)
        yield from replay_growth.make_lines(point)
        plot = draw_panels(replay_growth.make_panels(points))
        (run.directory.parent / replay_growth.PLOT_NAME).write_text(plot)


PartRunner = Callable[[Run], Iterator[Line]]

PARTS: Final[Mapping[str, PartRunner]] = MappingProxyType(
    {
        "http": _http,
        "openfga": _openfga,
        "stream": _stream,
        "search": _search,
        "workers": _workers,
        "decisions": _decisions,
        "ranges": _ranges,
        "state": _state,
        "event-loop": _event_loop,
        "early-start": _early_start,
        "growth": _growth,
        "scale": _scale,
        "connections": _many_connections,
        "tls": _tls,
        "log-ins": _log_ins,
        "floods": _floods,
        "creations": _creations,
        "following": _following,
        "replay": _replay,
        "replay-growth": _replay_growth,
    }
)
"""Every part by name, in the table's order."""
