"""Compare our decisions with those of each release of Kafka, on random cases.

python -m tests.releases [--questions 1000000] [--seed 1] [--versions 4.0.0,4.4.0]
python -m tests.releases --versions 4.4.0 --case 1234 --seed 1

The first run downloads each release's jars with Maven. One JVM runs at a time.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from authorizerd.acl.releases import RULES_4_3, RULES_4_4, ReleaseRules
from tests.conformance.random_cases import Case
from tests.kafka_rig.oracle import kafka_answers
from tests.kafka_rig.rig import Absent, Rig, prepare
from tests.releases.cases import release_cases
from tests.releases.comparison import Comparison

VERSIONS: Final[Mapping[str, ReleaseRules]] = {
    "4.0.0": RULES_4_3,
    "4.1.0": RULES_4_3,
    "4.2.0": RULES_4_3,
    "4.3.1": RULES_4_3,
    "4.4.0": RULES_4_4,
}
_CASES_PER_JVM: Final = 1000
_DIFFERENCES_MAX: Final = 20
"""The number of differences of a release after which the next one begins."""


def main() -> int:
    """Compare every release; return 1 if an answer differs, 2 if a release cannot run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.releases", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--questions", type=int, default=1_000_000, help="of all releases together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--versions", default=",".join(VERSIONS), help="releases with commas")
    parser.add_argument("--case", type=int, help="compare only the case with this number")
    arguments = parser.parse_args()
    versions = arguments.versions.split(",")
    code = 0
    for version in versions:
        rig = prepare(version=version)
        if isinstance(rig, Absent):
            print(f"Kafka {version}: cannot run: {rig.reason}", file=sys.stderr)
            code = 2
            continue
        release = _Run(rig, version, arguments.seed)
        if arguments.case is not None:
            release.show_case(arguments.case)
        else:
            release.compare(-(-arguments.questions // len(versions)))
        code = code or release.code
    return code


class _Run:
    """The comparison of one release."""

    def __init__(self, rig: Rig, version: str, seed: int) -> None:
        self._rig: Final = rig
        self._version: Final = version
        self._seed: Final = seed
        self._differences = 0
        self._met: Final[Counter[str]] = Counter()

    @property
    def code(self) -> int:
        return 1 if self._differences else 0

    def compare(self, questions: int) -> None:
        """Compare cases until enough questions are answered, or too many answers differ."""
        started = time.monotonic()
        cases = release_cases(self._seed, self._version)
        while self._met["questions"] < questions and self._differences < _DIFFERENCES_MAX:
            self._compare_some(list(islice(cases, _CASES_PER_JVM)))
        met = ", ".join(f"{count} {name}" for name, count in self._met.items())
        print(
            f"Kafka {self._version}, seed {self._seed}: {self._differences} differences;"
            f" {met}; {time.monotonic() - started:.0f} s",
            flush=True,
        )

    def show_case(self, number: int) -> None:
        case = next(release_cases(self._seed, self._version, number))
        print(json.dumps(case))
        self._compare_some([case])

    def _compare_some(self, cases: list[Case]) -> None:
        rules = VERSIONS[self._version]
        for case, kafka in zip(cases, kafka_answers(self._rig, cases), strict=True):
            self._met.update(_count(case, kafka["decisions"]))
            for difference in Comparison(case, kafka, rules).find_differences():
                self._differences += 1
                print(
                    f"Kafka {self._version}: {difference}\n  repeat: python -m tests.releases"
                    f" --versions {self._version} --seed {self._seed} --case {case['number']}"
                )


def _count(case: Case, decisions: list[str]) -> Iterator[str]:
    """Yield the names of what a case has, once for each."""
    names = {"A": "allowed", "D": "denied", "!": "refused"}
    for decision in decisions:
        yield "questions"
        yield names[decision[0]]
    yield from ("by resource type" for _ in case["byResourceType"])
    yield from ("filters" for _ in case["filters"])
    yield from ("ACLs with a slash in the host" for row in case["acls"] if "/" in row[4])


if __name__ == "__main__":
    sys.exit(main())
