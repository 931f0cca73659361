from functools import partial

import pytest
import trio

from tests.daemon import kafka_listener_service, kafka_service
from tests.daemon.kafka_listener_service import Listen
from tests.daemon.kafka_service import KafkaService, Start


@pytest.fixture
def start(nursery: trio.Nursery) -> Start:
    """Start services in the nursery of the test."""
    return partial(kafka_service.start, nursery)


@pytest.fixture
async def service(start: Start) -> KafkaService:
    """Return a service that has loaded an empty log."""
    return await start()


@pytest.fixture
async def unloaded(start: Start) -> KafkaService:
    """Return a service that has not loaded its log."""
    return await start(is_loaded=False)


@pytest.fixture
def listen(nursery: trio.Nursery) -> Listen:
    """Start listeners in the nursery of the test."""
    return partial(kafka_listener_service.start, nursery)


@pytest.fixture
def slow_clock(mock_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    """Return a clock that a test moves, and that runs ten times slower than real time otherwise.

    So no limit is exceeded because the machine is busy, and a test that waits in vain still fails.
    """
    mock_clock.rate = 0.1
    return mock_clock
