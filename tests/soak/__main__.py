"""Run three daemons under mixed load for a long time; exit code 1 if anything is wrong or grows.

python -m tests.soak [--minutes 30] [--seed 1] [--writes as-self] [--folder .run/soak]
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.soak.report import find_growth, format_report, judge_all, write_files
from tests.soak.sites import WRITES
from tests.soak.soak import Soak, running_sites
from tests.support.daemon_process import ROOT, run

BALLAST: Final = 2000
DISTURBANCE_SECONDS: Final = 12.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writes", choices=WRITES, default="as-self")
    parser.add_argument("--folder", type=Path, default=ROOT / ".run" / "soak")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the daemons and the disks end as well
    arguments.folder.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(f"seed {arguments.seed}, load of the machine {os.getloadavg()}\n")
    sys.stdout.flush()
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as name,
        running_sites(Path(name), ballast=BALLAST, writes=arguments.writes) as sites,
    ):
        soak = Soak(sites, seed=arguments.seed)
        try:
            soak.run(arguments.minutes * 60, disturbance_seconds=DISTURBANCE_SECONDS)
            soak.stop()
        finally:
            for site in soak.sites:
                shutil.copy(site.log_file, arguments.folder / f"{site.name}.log")
        checked = run("check-log", sites[0].log_dir)
        if checked.returncode:
            soak.report(f"check-log: {checked.stdout}")
    judgements = judge_all(soak)
    faults = [*soak.faults, *find_growth(judgements)]
    report = format_report(soak, judgements)
    minutes = (time.monotonic() - begun) / 60
    end = f"{minutes:.0f} minutes, load of the machine {os.getloadavg()}: {len(faults)} faults"
    repeat = f"repeat: python -m tests.soak {shlex.join(sys.argv[1:])}"
    text = "\n".join([report, "", *faults, *([repeat] if faults else ()), end, ""])
    sys.stdout.write(text)
    (arguments.folder / "report.txt").write_text(text)
    write_files(soak, arguments.folder)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
