from __future__ import annotations

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
