"""Envelopes on a controller's listener, byte by byte over real sockets."""

import struct
from pathlib import Path

from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from tests.support import envelopes
from tests.support.acls import acl
from tests.support.daemon_process import connect, new_log, running
from tests.support.kafka_connection import KafkaConnection

HEADER = struct.Struct(">hhih")
CORRELATION_ID = 7


def exchange(address: str, version: int, data: str) -> str:
    """Send an Envelope with a request; return the answer's body, "" if the daemon hangs up."""
    body = envelopes.envelope(bytes.fromhex(data), version=version)
    with connect(address) as stream:
        head = HEADER.pack(ApiKey.ENVELOPE, version, CORRELATION_ID, -1)
        stream.sendall(frame(head, b"\0", body))
        received = stream.makefile("rb")
        content = received.read(int.from_bytes(received.read(4), "big"))
    assert content[:5] in (CORRELATION_ID.to_bytes(4, "big") + b"\0", b"")
    return content[5:].hex()


def test_only_controllers_listeners_have_the_api(tmp_path: Path) -> None:
    """The answers have the bytes of Kafka 4.3.1's own classes. Others hang up on super users too.

    A forwarded ACL is visible on the other listeners.
    """
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "super.users": "User:ANONYMOUS;User:alice",
    }
    with running(tmp_path, new_log(tmp_path), config) as daemon:
        listeners = daemon.ready["listeners"]
        for version in (0, 1):
            for data, answer in (
                (envelopes.JAVA_CREATE_V1, envelopes.JAVA_ANSWER_V1),
                (envelopes.JAVA_CREATE_V3, envelopes.JAVA_ANSWER_V3),
            ):
                assert exchange(listeners["PLAINTEXT"], version, data) == ""
                assert exchange(listeners["CONTROLLER"], version, data) == answer
        client = KafkaConnection(listeners["PLAINTEXT"])
        assert client.describe() == [acl("User:alice", topic="orders")]
        client.close()
