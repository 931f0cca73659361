"""Measure every input of every station in CPU time, and print the longest stretches.

python -m tests.loop [--whole] [--repeats 3] [--stations Kafka,HTTP] [--counted] [--top 20]
    [--acls 100000]

With 5,000,000 ACLs, a station takes minutes and 6 GiB of memory.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import trio

from tests.loop.acl_sets import ACL_SETS, ACLS
from tests.loop.followers import FOLLOWED_ACLS, play_followers
from tests.loop.limits import LIMITS
from tests.loop.meter import ByteMeter, CollectionMeter, CpuMeter, LineMeter, Meter, SlowCallMeter
from tests.loop.players import Played
from tests.loop.running import write_folder
from tests.loop.stations import STATIONS, play

FOLLOWERS = "followers"


def main() -> None:
    """Play the inputs and print the longest stretches."""
    parser = argparse.ArgumentParser(prog="tests.loop", description=__doc__.splitlines()[0])
    parser.add_argument("--whole", action="store_true", help="play all inputs of every caller")
    parser.add_argument(
        "--repeats", type=int, default=1, help="runs of each input; the shortest counts"
    )
    parser.add_argument("--stations", default=",".join((*STATIONS, FOLLOWERS)))
    parser.add_argument("--counted", action="store_true", help="count work as the tests do")
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument(
        "--acls",
        type=int,
        help=f"of each station (default: {ACLS}, and {FOLLOWED_ACLS} for {FOLLOWERS})",
    )
    arguments = parser.parse_args()
    groups: list[list[Meter]] = [[CpuMeter()]]
    if arguments.counted:
        groups = [[LineMeter(LIMITS["lines"]), CollectionMeter(), SlowCallMeter()], [ByteMeter()]]
    for meters in groups:
        played: list[tuple[str, Played]] = []
        for name in arguments.stations.split(","):
            found = _play(name, meters, arguments)
            sys.stderr.write(f"{name}: {len(found)} inputs\n")
            played += [(name, each) for each in found]
        for meter in meters:
            _print(meter.unit, played, arguments.top)


def _play(name: str, meters: list[Meter], arguments: argparse.Namespace) -> list[Played]:
    if name == FOLLOWERS:
        with tempfile.TemporaryDirectory() as folder:
            count = arguments.acls or FOLLOWED_ACLS
            return trio.run(play_followers, Path(folder), meters, count, instruments=meters)
    station = STATIONS[name]
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder), ACL_SETS[station.acls](arguments.acls or ACLS))

        async def run() -> list[Played]:
            return await play(
                station, Path(folder), meters, is_whole=arguments.whole, repeats=arguments.repeats
            )

        return trio.run(run, instruments=meters)


def _print(unit: str, played: list[tuple[str, Played]], top: int) -> None:
    sys.stdout.write(f"the longest stretches of {len(played)} inputs, in {unit}\n")
    for name, each in sorted(played, key=lambda pair: -pair[1].longest[unit].amount)[:top]:
        longest = each.longest[unit]
        sys.stdout.write(
            f"{longest.amount:12.2f} {longest.task:16} {each.sent:8} bytes sent, "
            f"{each.answered:8} received, {longest.stretches:5} stretches of {longest.total:10.1f}"
            f" in total: {name}, {each.input} {longest.where}\n"
        )


if __name__ == "__main__":
    main()
