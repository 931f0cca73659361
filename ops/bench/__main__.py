"""``make bench``: print one table of our figures, each with a peer's figure from the same run.

    python -m ops.bench [--quick] [--directory DIRECTORY]

The command prints the table to standard output and its progress to standard error. It writes the
same lines to ``DIRECTORY/bench.json``, and a plot of the growth to ``DIRECTORY/growth.svg``.
``--quick`` runs every part on small sets, without a JVM.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.builder import build
from ops.bench import creations, floods, following, log_ins, tls
from ops.bench.authzen import measure_http
from ops.bench.checkpoint import write_checkpoint
from ops.bench.creations import measure_creations
from ops.bench.decisions import DisagreementError, collect_answers, measure_decisions
from ops.bench.early_start import measure_early_start
from ops.bench.event_loop import measure_event_loop
from ops.bench.figures import Absent, Line, format_table
from ops.bench.floods import measure_floods
from ops.bench.following import measure_following
from ops.bench.growth import RESOURCES, Point, make_lines, make_panels, measure_growth
from ops.bench.kafka_peer import KafkaPeer, prepare
from ops.bench.loading import measure_loading
from ops.bench.log_ins import measure_log_ins
from ops.bench.machine import Machine, describe_machine
from ops.bench.plot import draw_panels
from ops.bench.processes import ProcessError
from ops.bench.replay import SIZES, measure_replay
from ops.bench.sets import AclSet, kind, kind_with_many_questions, wide, write_lines
from ops.bench.snapshot_updates import measure_snapshot_updates
from ops.bench.stream import measure_stream
from ops.bench.tls import measure_tls
from ops.kafka_rig import rig

_RUN_DIRECTORY: Final = Path(".run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The extent of a run. Only the last of ``sets`` is loaded and updated."""

    sets: tuple[AclSet, ...]
    decision_seconds: float
    http_seconds: float
    updates: int
    crowd: int
    loads: int
    growth: tuple[int, ...]
    replay_lines: tuple[int, ...]


FULL: Final = Plan(
    sets=(kind(), wide(5000, 10), wide(50_000, 10)),
    decision_seconds=3.0,
    http_seconds=5.0,
    updates=10_000,
    crowd=100_000,
    loads=3,
    growth=RESOURCES,
    replay_lines=SIZES,
)
QUICK: Final = Plan(
    sets=(kind(), wide(1000, 2)),
    decision_seconds=0.02,
    http_seconds=0.1,
    updates=100,
    crowd=100,
    loads=1,
    growth=(1000, 2000),
    replay_lines=(),
)


class Report(msgspec.Struct, frozen=True):
    """The content of ``bench.json``."""

    machine: Machine
    began: str
    seconds: float
    lines: list[Line]


def measure(plan: Plan, peer: KafkaPeer, directory: Path) -> Iterator[Line]:
    """Yield every line in the table's order; files are written below ``directory``.

    Raises:
        DisagreementError: two authorizers answer one question differently.
        ProcessError: one of our processes failed. A peer that fails is only left out.
    """
    for acl_set in plan.sets:
        _report_progress(f"{acl_set.name}: decisions")
        write_lines(acl_set, directory)
        snapshot = build(acl_set.added())
        gc.freeze()  # as the daemon does once it has loaded
        yield from measure_decisions(acl_set, snapshot, peer, directory, plan.decision_seconds)
    _report_progress(f"{acl_set.name}: the peer's state")
    theirs = peer.state(directory, acl_set.name)
    _report_progress(f"{acl_set.name}: updates")
    yield from measure_snapshot_updates(
        snapshot, list(acl_set.added()), theirs, updates=plan.updates, crowd=plan.crowd
    )
    # Free the largest set before other processes load it, too.
    del snapshot
    _report_progress(f"{acl_set.name}: loading")
    log_dir = directory / acl_set.name
    write_checkpoint(log_dir, acl_set.added())
    yield from measure_loading(log_dir, theirs, plan.loads)
    yield from measure_event_loop(log_dir, directory / "event-loop")
    yield from measure_early_start(log_dir, directory / "early-start")
    yield from _growth(plan, peer, directory)
    yield from _http(plan, directory)
    yield from measure_creations(directory, creations.FULL if plan is FULL else creations.QUICK)
    if plan is FULL:
        _report_progress("following a cluster")
        yield from measure_following(rig.prepare(), directory / "following", following.FULL)
    if plan.replay_lines:
        _report_progress("replay")
        yield from measure_replay(directory / plan.sets[0].name, directory, plan.replay_lines)


def _growth(plan: Plan, peer: KafkaPeer, directory: Path) -> Iterator[Line]:
    """Yield the lines of each size, and write the plot."""
    _report_progress("growth")
    points: list[Point] = []
    for point in measure_growth(
        peer,
        directory,
        resources=plan.growth,
        updates=plan.updates,
        seconds=plan.decision_seconds / 3,
    ):
        points.append(point)
        yield from make_lines(point)
    (directory.parent / "growth.svg").write_text(draw_panels(make_panels(points)))


def _http(plan: Plan, directory: Path) -> Iterator[Line]:
    acl_set = plan.sets[0]
    _report_progress(f"{acl_set.name}: HTTP")
    log_dir = directory / acl_set.name
    write_checkpoint(log_dir, acl_set.added())
    expected = collect_answers(build(acl_set.added()), list(acl_set.questions()))
    yield from measure_http(acl_set, expected, log_dir, directory, plan.http_seconds)
    _report_progress(f"{acl_set.name}: the stream")
    yield from measure_stream(acl_set, expected, log_dir, directory, plan.http_seconds)
    _report_progress(f"{acl_set.name}: TLS")
    asked = kind_with_many_questions() if plan is FULL else acl_set
    yield from measure_tls(
        asked, log_dir, directory / "tls", tls.FULL if plan is FULL else tls.QUICK
    )
    _report_progress("log-ins")
    yield from measure_log_ins(
        directory / "log-ins", log_ins.FULL if plan is FULL else log_ins.QUICK
    )
    _report_progress(f"{acl_set.name}: floods")
    extent = floods.FULL if plan is FULL else floods.QUICK
    yield from measure_floods(acl_set, log_dir, directory / "floods", extent)


def _report_progress(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ops.bench", description="Measure authorizerd.")
    parser.add_argument("--quick", action="store_true", help="small sets, no JVM, a few seconds")
    parser.add_argument(
        "--directory", type=Path, default=_RUN_DIRECTORY, help="for files (default: %(default)s)"
    )
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    # The wall clock only dates the run: it may be set while the run is timed.
    began, started = time.strftime("%Y-%m-%dT%H:%M:%S%z"), time.monotonic()
    machine = describe_machine()
    directory = arguments.directory.absolute() / "bench"
    directory.mkdir(parents=True, exist_ok=True)
    if arguments.quick:
        plan, peer = QUICK, KafkaPeer(Absent("not in a quick run"))
    else:
        _report_progress("Kafka's jars")
        plan, peer = FULL, prepare(arguments.directory.absolute() / "jvm")
    try:
        # Print and write nothing until every part has succeeded.
        lines = list(measure(plan, peer, directory))
    except (DisagreementError, ProcessError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    report = Report(machine, began, time.monotonic() - started, lines)
    encoded = msgspec.json.format(msgspec.json.encode(report))
    (arguments.directory / "bench.json").write_bytes(encoded + b"\n")
    print(f"{machine}\n\n{format_table(lines)}\n{report.seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
