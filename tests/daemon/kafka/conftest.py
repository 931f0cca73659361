import pytest
import trio

from tests.daemon.kafka_service import KafkaService, start


@pytest.fixture
async def service(nursery: trio.Nursery) -> KafkaService:
    """Return a service that has loaded an empty log."""
    return await start(nursery)


@pytest.fixture
async def unloaded(nursery: trio.Nursery) -> KafkaService:
    """Return a service that has not loaded its log."""
    return await start(nursery, is_loaded=False)


@pytest.fixture
def slow_clock(mock_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    """Return a clock that a test moves, and that runs ten times slower than real time otherwise.

    So no limit is exceeded because the machine is busy, and a test that waits in vain still fails.
    """
    mock_clock.rate = 0.1
    return mock_clock
