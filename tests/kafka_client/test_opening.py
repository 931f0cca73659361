"""A new connection to a node: authentication, and how long it lasts."""

import math
from datetime import timedelta

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from authorizerd.kafka_client.errors import ConnectionFailedError
from authorizerd.kafka_client.log_in import Credentials, Mechanism, open_node
from tests.daemon.kafka_cluster import SILENCE, KafkaCluster, addresses, answer
from tests.kafka_client.calls import describe_acls

[FIRST] = addresses(1)
ALICE = Credentials(mechanism=Mechanism.PLAIN, username="alice", password="alice-secret")


@pytest.mark.parametrize(("lifetime_ms", "seconds"), [(0, math.inf), (60_000, 51.0), (1000, 0.85)])
async def test_session_is_renewed_before_the_server_ends_it(
    nursery: trio.Nursery, autojump_clock: MockClock, lifetime_ms: int, seconds: float
) -> None:
    """As in Kafka's client, after 85 % of its lifetime. 0 means that it has no end."""
    cluster = KafkaCluster(nursery)
    lifetime = timedelta(milliseconds=lifetime_ms)
    accepted = answer(error_code=0, error_message=None, auth_bytes=b"", session_lifetime=lifetime)
    cluster.add(FIRST, answer(error_code=0, mechanisms=("PLAIN",)), accepted)
    node = await open_node(FIRST, ALICE, "tests", cluster.connect)
    assert node.renewal_time - trio.current_time() == pytest.approx(seconds)


async def test_session_without_a_log_in_has_no_end(nursery: trio.Nursery) -> None:
    cluster = KafkaCluster(nursery)
    cluster.add(FIRST)
    assert (await open_node(FIRST, None, "tests", cluster.connect)).renewal_time == math.inf


async def test_a_request_fails_if_another_task_closes_its_connection(nursery: trio.Nursery) -> None:
    cluster = KafkaCluster(nursery)
    cluster.add(FIRST, SILENCE)
    node = await open_node(FIRST, None, "tests", cluster.connect)

    async def close() -> None:
        await trio.testing.wait_all_tasks_blocked()
        await node.aclose()

    nursery.start_soon(close)
    with pytest.raises(ConnectionFailedError, match="closed the connection"):
        await node.request(describe_acls(), 60_000)
