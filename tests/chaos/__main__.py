"""Run a daemon with workers and clients under faults, and compare everything with the log.

python -m tests.chaos [--kafka] [--minutes 5] [--seed 1] [--faults "kill -9,SIGSTOP"] [--folder DIR]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from ops.kafka_rig.cluster import Cluster, running_cluster
from ops.kafka_rig.cluster_settings import ClusterSettings
from ops.kafka_rig.rig import DIRECTORY, Absent, Rig, prepare
from tests.chaos.chaos import Chaos, Report, draw_faults
from tests.chaos.faults import CLUSTER_FAULTS, FAULTS, Fault, Means
from tests.chaos.origins import FollowedCluster, Origin, OwnLog
from tests.chaos.private_machine import PrivateDisk, PrivateNetwork, enter
from tests.chaos.shim import Shim, find_compiler
from tests.support.daemon_process import ROOT

_DISK: Final = "disk"


def main() -> int:
    """Run faults for the minutes, and print the table; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="no fault begins after them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default="", help="parts of the names of faults, with commas")
    parser.add_argument("--workers", type=int, default=2, help="1: the daemon itself decides")
    parser.add_argument("--kafka", action="store_true", help="follow a real cluster; needs Java")
    parser.add_argument("--folder", type=Path, help="keep the log and the daemon's output here")
    arguments = parser.parse_args()
    if arguments.kafka and isinstance(rig := prepare(ROOT / DIRECTORY), Absent):
        parser.error(f"no Kafka: {rig.reason}")
    alone = enter("tests.chaos", sys.argv[1:])
    with ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(_temporary()))
        folder.mkdir(parents=True, exist_ok=True)
        means, missing = _find_means(folder, alone)
        if means.disk is not None:
            stack.callback(means.disk.close)
        if arguments.workers == 1:
            missing["workers"] = "there are none"
        log_folder = folder if means.disk is None else means.disk.path
        origin: Origin
        faults = FAULTS
        if arguments.kafka:
            cluster = stack.enter_context(_running_cluster(folder / "cluster"))
            means = replace(means, cluster=cluster)
            origin = FollowedCluster(cluster, log_folder)
            faults = (*FAULTS, *CLUSTER_FAULTS)
        else:
            origin = OwnLog(log_folder)
        chosen = _choose(faults, arguments.faults.split(","), missing)
        if not chosen:
            parser.error("no fault that is possible here has this in its name")
        begin = time.monotonic()
        drawn = itertools.takewhile(
            lambda _: time.monotonic() - begin < arguments.minutes * 60,
            draw_faults(chosen, arguments.seed),
        )
        chaos = Chaos(folder, origin, arguments.seed, _print, means, arguments.workers)
        report = chaos.run(drawn)
        _print_report(report, arguments.seed, time.monotonic() - begin)
    return bool(report.violations)


def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="chaos-")


@contextmanager
def _running_cluster(folder: Path) -> Iterator[Cluster]:
    """Run three controllers; there is nothing to do for brokers."""
    rig = prepare(ROOT / DIRECTORY)
    assert isinstance(rig, Rig), "it was found before"
    with running_cluster(rig, folder, ClusterSettings(brokers=0)) as cluster:
        yield cluster


def _find_means(folder: Path, alone: str) -> tuple[Means, dict[str, str]]:
    """Return what this machine has for faults, and why it lacks the others.

    Args:
        alone: why there is no private network and disk, or an empty text.
    """
    missing = {"network": alone, "disk": alone, "shim": "" if find_compiler() else "there is no cc"}
    network = disk = None
    if not alone:
        try:
            network = PrivateNetwork(folder)
        except OSError as error:
            missing["network"] = str(error)
        try:
            disk = PrivateDisk(folder / _DISK)
        except OSError as error:
            missing["disk"] = str(error)
    shim = None if missing["shim"] else Shim(folder, folder if disk is None else disk.path)
    return Means(shim=shim, disk=disk, network=network), missing


def _choose(
    faults: Sequence[Fault], parts: Sequence[str], missing: Mapping[str, str]
) -> list[Fault]:
    """Return the faults with one of these parts in their names; print why others are left out."""
    chosen = [each for each in faults if any(part in each.name for part in parts)]
    for fault in chosen:
        if missing.get(fault.needs):
            _print(f"left out: {fault.name}: {missing[fault.needs]}")
    return [fault for fault in chosen if not missing.get(fault.needs)]


def _print_report(report: Report, seed: int, seconds: float) -> None:
    _print(f"\nseed {seed}, {seconds:.0f} s\n")
    _print_row("fault", "times", "recovered after (median, longest)")
    for name, recoveries in sorted(report.recoveries.items()):
        spread = f"{median(recoveries):6.2f} s {max(recoveries):6.2f} s"
        _print_row(name, str(len(recoveries)), spread)
    _print("")
    for name, number in sorted(report.counts.items()):
        _print_row(name, f"{number:,}", "")
    for text in report.violations:
        _print(f"VIOLATION: {text}")


def _print_row(*cells: str) -> None:
    name, number, more = cells
    _print(f"{name:45}{number:>10}  {more}".rstrip())


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
