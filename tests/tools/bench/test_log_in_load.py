"""The load generator for log-ins accepts only log-ins that succeed."""

from __future__ import annotations

import socket
import struct

import pytest

from authorizerd.kafka_client.scram import ScramError
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.records.scram import ScramMechanism
from tests.tools.bench.servers import Answer, serving
from tools.bench.closed_loop import LoadError
from tools.bench.log_in_load import drive

CHOSEN = b"\0\0" + struct.pack(">i", 0)
REFUSED = struct.pack(">h", 58) + b"\0\2no" + struct.pack(">iq", 0, 0)


def accepted(token: bytes) -> bytes:
    return b"\0\0\xff\xff" + struct.pack(">i", len(token)) + token + bytes(8)


def answering(token_answer: bytes) -> Answer:
    """Accept every mechanism, and give ``token_answer`` on each token, in two pieces."""

    def answer(peer: socket.socket, request: bytes) -> None:
        (api_key,) = struct.unpack_from(">h", request, 4)
        body = CHOSEN if api_key == ApiKey.SASL_HANDSHAKE else token_answer
        data = frame(bytes(4), body)
        peer.sendall(data[:3])
        peer.sendall(data[3:])

    return answer


@pytest.mark.parametrize(
    ("answer", "error", "complaint"),
    [
        (REFUSED, LoadError, "refused with error 58"),
        (accepted(b"nonsense"), ScramError, "malformed"),
        (accepted(b"r=another,s=YWJjZA==,i=4096"), ScramError, "nonce"),
    ],
)
def test_failed_log_in_ends_the_load(answer: bytes, error: type[Exception], complaint: str) -> None:
    with serving(answering(answer)) as (address, _), pytest.raises(error, match=complaint):
        drive(address, ScramMechanism.SCRAM_SHA_256, "a", "b", connections=2, seconds=0.05)
