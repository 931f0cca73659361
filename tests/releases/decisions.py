"""The comparison of all answers of one release with ours, on random cases."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final

from authorizerd.acl.model import WILDCARD_PRINCIPAL
from tests.conformance.random_cases import Case
from tests.kafka_rig.oracle import kafka_answers
from tests.kafka_rig.rig import Rig
from tests.releases.cases import release_cases
from tests.releases.comparison import Comparison
from tests.releases.versions import VERSIONS, Compared

_CASES_PER_JVM: Final = 1000
_DIFFERENCES_MAX: Final = 20
"""The number of differences of a release after which its comparison ends."""


class Decisions:
    """The questions asked of a release, and the differences, which are printed at once."""

    def __init__(self, rig: Rig, version: str, seed: int) -> None:
        self.differences = 0
        self._rig: Final = rig
        self._version: Final = version
        self._seed: Final = seed
        self._met: Final[Counter[str]] = Counter()

    @property
    def questions(self) -> int:
        return self._met["questions"]

    def compare(self, questions: int) -> None:
        """Compare cases until enough questions are answered, or too many answers differ."""
        started = time.monotonic()
        cases = release_cases(self._seed, self._version)
        while self.questions < questions and self.differences < _DIFFERENCES_MAX:
            self._compare_some(list(islice(cases, _CASES_PER_JVM)))
        met = ", ".join(f"{count} {name}" for name, count in self._met.items())
        print(
            f"Kafka {self._version}, seed {self._seed}: {self.differences} differences;"
            f" {met}; {time.monotonic() - started:.0f} s",
            flush=True,
        )

    def show_case(self, number: int) -> None:
        """Print one case, and compare it."""
        case = next(release_cases(self._seed, self._version, number))
        print(json.dumps(case))
        self._compare_some([case])

    def _compare_some(self, cases: list[Case]) -> None:
        release = VERSIONS[self._version]
        for case, kafka in zip(cases, kafka_answers(self._rig, cases), strict=True):
            self._met.update(_count(case, kafka["decisions"], release))
            for difference in Comparison(case, kafka, release).find_differences():
                self.differences += 1
                print(
                    f"Kafka {self._version}: {difference}\n  repeat: python -m tests.releases"
                    f" --versions {self._version} --seed {self._seed} --case {case['number']}"
                )


def _count(case: Case, decisions: list[str], release: Compared) -> Iterator[str]:
    """Yield the names of what a case has, once for each."""
    names = {"A": "allowed", "D": "denied", "!": "refused"}
    for row, decision in zip(case["requests"], decisions, strict=True):
        if row[0] == WILDCARD_PRINCIPAL and release.judges_everyone:
            yield "by User:* and not compared"
        else:
            yield "questions"
            yield names[decision[0]]
    yield from ("by resource type" for _ in case["byResourceType"])
    yield from ("filters" for _ in case["filters"])
    yield from ("ACLs with a slash in the host" for row in case["acls"] if "/" in row[4])
