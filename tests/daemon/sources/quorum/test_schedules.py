"""The machine under thousands of random schedules of a quorum.

Whatever happens, what the machine passes on is a prefix of what the quorum committed, and once the
quorum is quiet, it is all of it.
"""

from collections import Counter
from random import Random

import pytest

from tests.daemon.sources.quorum.follower_model import Follower
from tests.daemon.sources.quorum.quorum_model import Quorum
from tests.support.sizes import IS_WHOLE, size

SCHEDULES = size(50, 250)
"""For each test case."""

STEPS = 120
STEPS_TO_CATCH_UP = 2_000


def run_schedule(seed: int, *, is_hasty: bool, fetch_version: int, faults: float) -> Follower:
    """Run one schedule to its end, and return the follower."""
    random = Random(seed)
    quorum = Quorum(random, is_hasty=is_hasty)
    follower = Follower(quorum, random, fetch_version=fetch_version)
    follower.faults = faults
    happenings = (
        [quorum.write] * 6
        + [quorum.commit] * 6
        + [quorum.inform] * 4
        + [quorum.elect, quorum.take_snapshot, quorum.take_snapshot, quorum.toggle, quorum.move]
        + [follower.restart, follower.write_and_wait, follower.write_and_wait]
    )
    for _ in range(STEPS):
        if random.random() < 0.6:
            random.choice(happenings)()
        else:
            for _ in range(random.randint(1, 6)):
                follower.step()
        assert follower.fault is None
    follower.faults = 0.0
    for node in quorum.nodes.values():
        node.is_up = True
    quorum.elect()
    for _ in range(20):
        quorum.inform()
    quorum.commit(everything=True)
    steps = 0
    while follower.passed != quorum.committed:
        steps += 1
        assert steps < STEPS_TO_CATCH_UP, "the follower does not catch up"
        follower.step()
    for _ in range(30):
        follower.step()
    assert follower.fault is None
    return follower


@pytest.mark.parametrize("fetch_version", [17, 18])
@pytest.mark.parametrize("is_hasty", [False, True])
@pytest.mark.parametrize("faults", [0.0, 0.15])
def test_what_is_passed_on_is_what_the_quorum_committed(
    fetch_version: int, is_hasty: bool, faults: float
) -> None:
    """Leaders change, are deposed, truncate, move and crash; answers are garbage or cut off."""
    seen: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        follower = run_schedule(seed, is_hasty=is_hasty, fetch_version=fetch_version, faults=faults)
        assert follower.machine.contact.leader is not None
        assert not follower.barriers
        seen += follower.seen
    if not IS_WHOLE:
        return
    # The schedules are worthless if they never reach these.
    expected = {"loaded", "confirmed", "barrier", "diverging", "snapshot", "abandoned"}
    expected |= {
        "connection",
        "SNAPSHOT_NOT_FOUND",
        "UNKNOWN_LEADER_EPOCH",
        "NOT_LEADER_OR_FOLLOWER",
    }
    if faults:
        expected |= {"garbage", "CLUSTER_AUTHORIZATION_FAILED", "error 777"}
    assert not expected - set(+seen)
