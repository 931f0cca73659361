"""Compare our decisions with those of each release of Kafka, then walk through its cluster.

python -m tests.releases [--questions 1000000] [--seed 1] [--versions 4.0.0,4.4.0] [--no-walk]
python -m tests.releases --versions 4.4.0 --case 1234 --seed 1
python -m tests.releases --write

The first run downloads each release's jars with Maven. A comparison runs one JVM at a time, a walk
three controllers and two brokers. The walk's logs are in .run/releases.
"""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Final

from tests.kafka_rig.rig import Absent, Rig, RigError, prepare
from tests.releases.decisions import Decisions
from tests.releases.results import Result, describe_run, save_results
from tests.releases.versions import VERSIONS
from tests.releases.walk import walk_release

WALKS: Final = Path(".run/releases").absolute()


def main() -> int:
    """Run every release; return 1 if something differs, 2 if a release cannot run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.releases", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--questions", type=int, default=1_000_000, help="of all releases together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--versions", default=",".join(VERSIONS), help="releases with commas")
    parser.add_argument("--case", type=int, help="compare only the case with this number")
    parser.add_argument("--no-walk", action="store_true", help="only compare decisions")
    parser.add_argument("--write", action="store_true", help="write the table in docs/")
    arguments = parser.parse_args()
    if arguments.write and (arguments.no_walk or arguments.case is not None):
        parser.error("--write: expected neither --no-walk nor --case")
    versions = arguments.versions.split(",")
    day, commit = describe_run()  # before this run changes files
    code = 0
    for version in versions:
        rig = prepare(version=version)
        if arguments.case is not None and isinstance(rig, Rig):
            decisions = Decisions(rig, version, arguments.seed)
            decisions.show_case(arguments.case)
            return 1 if decisions.differences else 0
        questions = -(-arguments.questions // len(versions))
        result = Result(day=day, commit=commit, seed=arguments.seed)
        _run(rig, version, questions, result, walks=not arguments.no_walk)
        if result.error:
            print(f"Kafka {version}: cannot run: {result.error}", file=sys.stderr)
        if arguments.write:
            save_results({version: result})
        code = code or (2 if result.error else int(not result.is_passed))
    return code


def _run(rig: Rig | Absent, version: str, questions: int, result: Result, *, walks: bool) -> None:
    """Compare, walk, and note in ``result`` what was found."""
    if isinstance(rig, Absent):
        result.error = rig.reason
        return
    decisions = Decisions(rig, version, result.seed)
    try:
        decisions.compare(questions)
        if walks:
            directory = WALKS / version
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            result.walks = walk_release(rig, directory, VERSIONS[version])
    except RigError as error:
        result.error = str(error)
    result.questions, result.differences = decisions.questions, decisions.differences
    for source, walk in result.walks.items():
        print(
            f"Kafka {version}, {source}: {len(walk.passed)} steps passed"
            + (f", then failed: {walk.error}" if walk.error else ""),
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
