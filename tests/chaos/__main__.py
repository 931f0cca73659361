"""Run a daemon with workers and clients under faults, and compare everything with the log.

python -m tests.chaos [--source brokers] [--minutes 5] [--seed 1] [--faults "kill -9,SIGSTOP"]
"""

import argparse
import itertools
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from tests.chaos.chaos import Chaos, Report, draw_faults
from tests.chaos.cluster_faults import BROKER_FAULTS, CLUSTER_FAULTS
from tests.chaos.faults import FAULTS, Fault, Means
from tests.chaos.means import PrivateNetwork, Shim, enter, find_compiler
from tests.chaos.origins import Source, Writes, followed_cluster, own_log
from tests.fleet.disk import Disk, small_disk
from tests.kafka_rig.cluster import running_cluster
from tests.kafka_rig.cluster_settings import ClusterSettings
from tests.kafka_rig.rig import DIRECTORY, Absent, prepare
from tests.support.daemon_process import ROOT
from tools.processes import end_at_sigterm

_KEPT: Final = ROOT / ".run" / "chaos"
"""Where the files of a run with violations are kept, unless a folder was given."""
_BROKERS: Final = {Source.QUORUM: 0, Source.BROKERS: 2}


def main() -> int:
    """Run faults for the minutes, and print the table; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="no fault begins after them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default="", help="parts of the names of faults, with commas")
    parser.add_argument("--workers", type=int, default=2, help="1: the daemon itself decides")
    parser.add_argument(
        "--source", type=Source, choices=[*Source], default=Source.LOG,
        help="log: a log of its own; the others follow a real cluster, and need Java",
    )  # fmt: skip
    parser.add_argument(
        "--writes", type=Writes, choices=[*Writes], default=Writes.AS_SELF,
        help="how a follower changes the cluster; forward needs the source quorum",
    )  # fmt: skip
    parser.add_argument("--folder", type=Path, help="keep the log and the daemon's output here")
    arguments = parser.parse_args()
    source, writes = arguments.source, arguments.writes
    if writes is Writes.FORWARD and source is not Source.QUORUM:
        parser.error("--writes forward needs --source quorum")
    rig = prepare(ROOT / DIRECTORY) if source in _BROKERS else None
    if isinstance(rig, Absent):
        parser.error(f"no Kafka: {rig.reason}")
    alone = enter("tests.chaos", sys.argv[1:])
    end_at_sigterm()
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="chaos-")
        folder = arguments.folder or Path(stack.enter_context(temporary))
        folder.mkdir(parents=True, exist_ok=True)
        disk = stack.enter_context(small_disk(folder / "disk", may_mount=not alone))
        means, missing = _find_means(folder, disk, alone)
        if arguments.workers == 1:
            missing["workers"] = "there are none"
        faults = FAULTS
        if rig is not None:
            settings = ClusterSettings(brokers=_BROKERS[source])
            cluster = stack.enter_context(running_cluster(rig, folder / "cluster", settings))
            means = replace(means, cluster=cluster)
            origin = followed_cluster(cluster, disk.folder, source, writes)
            faults = (*FAULTS, *CLUSTER_FAULTS, *(BROKER_FAULTS if _BROKERS[source] else ()))
        else:
            origin = own_log(disk.folder)
        chosen = _choose(faults, arguments.faults.split(","), missing)
        if not chosen:
            parser.error("no fault that is possible here has this in its name")
        begin = time.monotonic()
        drawn = itertools.takewhile(
            lambda _: time.monotonic() - begin < arguments.minutes * 60,
            draw_faults(chosen, arguments.seed),
        )
        report = Chaos(folder, origin, arguments.seed, _print, means, arguments.workers).run(drawn)
        _print_report(report, arguments.seed, time.monotonic() - begin)
        if report.violations:
            kept = arguments.folder or _keep(folder, _KEPT / f"{source}-{arguments.seed}")
            _print(f"the daemon's log is in {kept}; this is repeated by:")
            _print(f"  python -m tests.chaos {shlex.join(sys.argv[1:])}")
    return bool(report.violations)


def _find_means(folder: Path, disk: Disk, alone: str) -> tuple[Means, dict[str, str]]:
    """Return what this machine has for faults, and why it lacks the others.

    Args:
        alone: why there is no private network and disk, or an empty text.
    """
    missing = {
        "network": alone,
        "disk": alone or ("" if disk.is_small else "no file system can be mounted"),
        "shim": "" if find_compiler() else "there is no cc",
    }
    network = None
    if not alone:
        try:
            network = PrivateNetwork(folder)
        except OSError as error:
            missing["network"] = str(error)
    shim = None if missing["shim"] else Shim(folder, disk.folder)
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


def _keep(folder: Path, kept: Path) -> Path:
    """Copy what the daemon has logged, and how it was configured."""
    kept.mkdir(parents=True, exist_ok=True)
    for name in ("daemon.log", "server.properties"):
        shutil.copy(folder / name, kept)
    return kept


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
