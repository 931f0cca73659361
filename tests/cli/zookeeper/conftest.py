from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.scripted_zookeeper import ScriptedZooKeeper
from tests.support.zookeeper_clusters import running_cluster


@pytest.fixture
def cluster() -> Iterator[ScriptedZooKeeper]:
    """A ZooKeeper as brokers of 3.9 leave it."""
    with running_cluster() as server:
        yield server
