"""A short run; ``python -m tests.chaos`` makes longer ones with more faults."""

from pathlib import Path

from tests.chaos.chaos import Chaos
from tests.chaos.faults import FAULTS
from tests.chaos.origins import own_log

SECONDS_MAX = 600.0
"""So much that no time decides the test."""

NAMES = (
    "kill -9 of a worker",
    "SIGSTOP of a worker, for a moment",
    "kill -9 of the daemon",
)


def test_all_that_clients_were_told_is_in_the_log(tmp_path: Path) -> None:
    told: list[str] = []
    faults = [each for name in NAMES for each in FAULTS if each.name == name]
    chaos = Chaos(
        tmp_path, own_log(tmp_path), seed=1, tell=told.append, recovery_seconds_max=SECONDS_MAX
    )
    report = chaos.run(faults)
    assert report.violations == []
    assert len(told) == 1 + 2 * len(NAMES)  # the start, then the begin and the end of each fault
    # A start fails as long as a worker of the daemon that was killed still has the ports.
    assert report.counts["starts of the daemon"] >= 2
    assert report.counts["requests with an expired certificate"] > 0
    for what in ("stream", "batch", "metadata", "metadata over TLS"):
        assert report.counts[f"decisions over {what}"] > 0
    assert report.counts["exchanges of: wrong token"] > 0
    assert report.counts["updates acknowledged"] > 0
    assert report.counts["listings"] > 0
