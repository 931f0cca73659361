"""The client of a topic, and what it tells librdkafka."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from queue import SimpleQueue

import pytest

from authorizerd.cli.broker_acls import read_client_settings
from authorizerd.kafka_client.client import ClientSettings
from authorizerd.replay.errors import TrafficError
from authorizerd.replay.topics import parse_topic
from authorizerd.replay.verify import topic_client
from authorizerd.replay.verify.topic_client import Reading, TopicClient
from tests.ops.replay.verify.mock_topic import KEPT_BYTES, MockTopic
from tests.ops.replay.verify.scripted_broker import write_lines
from tests.support.certificates import Authority
from tests.support.daemon_process import wait_until
from tests.support.sockets import accepting

ANYWHERE = ClientSettings(bootstrap=())


def read_all(client: TopicClient, partitions: set[int]) -> Reading:
    """Read until each partition is at its end or lacks an offset."""
    found = Reading([], {}, set())

    def is_read() -> bool:
        read = client.read(10**9)
        found.records.extend(read.records)
        found.ends.update(read.ends)
        found.missing.update(read.missing)
        return found.ends.keys() | found.missing >= partitions

    wait_until(is_read, "all is read")
    return found


def test_deleted_records_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading goes on only where the caller says; what came before is not given again."""
    topic = MockTopic("audit", monkeypatch)
    line = "x" * 100_000
    topic.feed([line] * (KEPT_BYTES // len(line) + 20), 0)
    topic.feed(["a", "b"], 1)
    client = TopicClient(parse_topic(topic.uri, {}), ANYWHERE)
    begin, end = client.find_range(0)
    assert 0 < begin < end
    client.start({0: 0, 1: 1})
    read = read_all(client, {0, 1})
    assert ([each.line for each in read.records], read.missing) == ([b"b"], {0})
    topic.feed(["c"], 1)
    client.start({0: begin, 1: read.ends[1]})
    read = read_all(client, {0, 1})
    assert sorted((each.partition, each.offset) for each in read.records) == [
        *((0, offset) for offset in range(begin, end)), (1, 2),
    ]  # fmt: skip
    assert (read.ends, client.find_end(0)) == ({0: end, 1: 3}, end)
    client.close()


@pytest.mark.parametrize("has_key", [False, True])
def test_client_connects_as_its_properties_say(
    has_key: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TLS, it sends its certificate with that of its issuer, and checks the server's."""
    monkeypatch.setattr(topic_client, "TIMEOUT_S", 0.5)
    root = Authority(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=root.ca_file)
    server.load_cert_chain(root.issue("server", "127.0.0.1"))
    if has_key:
        server.verify_mode = ssl.CERT_REQUIRED
    leaf = root.ca.create_child_ca().issue_cert("client.test")
    leaf.private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
    lines = [
        "security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-256",
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="a" password="b";',
        f"ssl.truststore.location={root.ca_file}",
        *([f"ssl.keystore.location={tmp_path / 'client.pem'}"] if has_key else []),
    ]  # fmt: skip
    config = write_lines(tmp_path / "client.properties", lines)
    received: SimpleQueue[bytes] = SimpleQueue()

    def serve(connection: socket.socket) -> None:
        with server.wrap_socket(connection, server_side=True) as secured:
            received.put(secured.recv(1000))

    with accepting(serve) as address:
        topic = parse_topic(f"kafka://{address}/audit", {})
        settings = read_client_settings(address, str(config), place=topic.uri)
        client = TopicClient(topic, settings)

        def is_connected() -> bool:
            with pytest.raises(TrafficError, match=f"^{topic.uri}: no answer in 0.5 s"):
                client.describe()
            return not received.empty()

        wait_until(is_connected, "the client connects")
        client.close()
    assert b"authorizerd-verify" in received.get()
