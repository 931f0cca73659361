"""DescribeQuorum of a single node: a real broker's answers and ours."""

from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace

import pytest

from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import message_call
from authorizerd.kafka_client.log_in import Credentials, Mechanism, open_node
from authorizerd.kafka_client.transport import open_tcp
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.quorum_messages import DescribeQuorumAnswer
from tests.kafka_rig.broker import ADMIN, Broker
from tests.support.daemon_process import new_log, running

METADATA = "__cluster_metadata"
TIMEOUT_MS = 20_000
CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
}
ASKED: list[Mapping[str, list[int]]] = [
    {METADATA: [0]}, {METADATA: [0, 1]}, {METADATA: [0], "orders": [0]}, {METADATA: []}, {},
]  # fmt: skip


async def describe_quorum(
    address: str, credentials: Credentials | None, asked: Mapping[str, list[int]]
) -> DescribeQuorumAnswer:
    topics = [
        SimpleNamespace(topic_name=n, partitions=[SimpleNamespace(partition_index=p) for p in ps])
        for n, ps in asked.items()
    ]
    call = message_call(
        ApiKey.DESCRIBE_QUORUM, SimpleNamespace(topics=topics), DescribeQuorumAnswer
    )
    host, _, port = address.rpartition(":")
    node = await open_node(Address(host, int(port)), credentials, "tests", open_tcp)
    async with aclosing(node):
        return await node.request(call, TIMEOUT_MS)


def comparable(answer: DescribeQuorumAnswer) -> str:
    """Return an answer as text, without offsets, times, epochs and ports."""
    text = repr(answer)
    for topic in answer.topics:
        for partition in topic.partitions:
            for voter in partition.current_voters:
                assert voter.log_end_offset == partition.high_watermark > 0
                assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp > 0
                text = text.replace(f"={voter.log_end_offset}", "=end")
                text = text.replace(f"={voter.last_fetch_timestamp}", "=now")
                text = text.replace(f"leader_epoch={partition.leader_epoch}", "leader_epoch=e")
    for node in answer.nodes:
        for listener in node.listeners:
            text = text.replace(f"port={listener.port}", "port=p")
    return text


@pytest.mark.parametrize("super_users", [f"User:{ADMIN};User:ANONYMOUS", f"User:{ADMIN}"])
async def test_answers_equal_the_brokers(broker: Broker, tmp_path: Path, super_users: str) -> None:
    """The caller may describe the cluster in one case, and may not in the other."""
    is_allowed = "ANONYMOUS" in super_users
    login = Credentials(
        mechanism=Mechanism.PLAIN, username=ADMIN, password=broker.settings.users[ADMIN]
    )
    credentials = login if is_allowed else None
    theirs = broker.sasl_plaintext if is_allowed else broker.plaintext
    with running(tmp_path, new_log(tmp_path), CONFIG | {"super.users": super_users}) as daemon:
        ours = daemon.ready["listeners"]["PLAINTEXT"]
        for asked in ASKED:
            expected = await describe_quorum(theirs, credentials, asked)
            answered = await describe_quorum(ours, None, asked)
            assert comparable(answered) == comparable(expected)
            assert (answered.error_code == 0) == is_allowed
