"""The machine on a model of a cluster whose brokers lag, pause and restart, by seed."""

from random import Random

import pytest

from authorizerd.daemon.sources.brokers.acknowledged import KEPT_SECONDS
from tests.daemon.sources.brokers.cluster_model import POLL, ClusterModel, Driver
from tests.support.sizes import size

SCHEDULES = size(10, 100)


def run_schedule(seed: int, *, has_quorum: bool) -> Driver:
    """Disturb a cluster for five minutes, then let it recover."""
    random = Random(seed)
    model = ClusterModel(random, brokers=random.randint(1, 3), has_quorum=has_quorum)
    driver = Driver(model)
    driver.run(300, chance_of_change=random.choice((0.0, 0.05, 1.0)))
    model.calm_down()
    driver.run(150)
    return driver


@pytest.mark.parametrize("first", range(0, 6 * SCHEDULES, SCHEDULES))
@pytest.mark.parametrize("has_quorum", [True, False])
def test_listings_never_go_back(has_quorum: bool, first: int) -> None:
    """Nothing is undone that was in force, no barrier is early, and the newest state wins."""
    for seed in range(first, first + SCHEDULES):
        driver = run_schedule(seed, has_quorum=has_quorum)
        assert driver.state == driver.model.states[-1], seed
        assert driver.model.now - driver.accepted_at < 2 * POLL, seed
        missing = driver.acked.keys() - driver.answered
        late = [key for key in missing if driver.acked[key].at < driver.model.now - KEPT_SECONDS]
        assert not [key for key in late if driver.acked[key].undone is None], seed
