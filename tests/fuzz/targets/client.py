"""Our Kafka client, and a hostile broker or controller: every answer that we read."""

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from typing import Any, Final, TypeAlias

import trio
import trio.testing
from kio.index import load_response_schema

from authorizerd.acl.steps import Steps
from authorizerd.daemon.sources.quorum.errors import GarbageError
from authorizerd.daemon.sources.quorum.fetched_log import FetchedLog
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Node
from authorizerd.kafka_client.errors import ConnectionFailedError, RequestFailedError
from authorizerd.kafka_client.log_in import Credentials, Mechanism, log_in
from authorizerd.kafka_client.quorum_calls import describe_quorum_call
from authorizerd.kafka_client.scram import ScramError, ScramExchange, check_signature
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka import acl_client
from authorizerd.protocol.kafka.api import APIS, REQUESTED_APIS, ApiKey, QuorumKey
from authorizerd.protocol.kafka.client_connection import KafkaClientConnection
from authorizerd.protocol.kafka.envelope_client import InnerRequest, decode_envelope
from authorizerd.protocol.kafka.fetch import (
    FetchAnswer,
    SnapshotAnswer,
    decode_fetch,
    decode_fetch_snapshot,
)
from authorizerd.protocol.kafka.messages import decode_response
from authorizerd.protocol.kafka.quorum_messages import EpochEnd, SnapshotId
from authorizerd.protocol.records.fetched import read_fetched_batches
from tests.daemon.sources.quorum.quorum_model import leader_change_batch
from tests.fuzz.target import SECRET, Check, Target, reader, rejected_with
from tests.loop.kafka_requests import small_bodies
from tests.support.acl_messages import decode_created, decode_deleted
from tests.support.envelopes import JAVA_ANSWER_V1, JAVA_ANSWER_V3, JAVA_ERROR_97
from tests.support.kio_messages import response_type
from tests.support.log_files import added, data_batch
from tests.support.quorum_answers import write_fetch, write_fetch_snapshot
from tests.support.sasl import SHA_256

Reader: TypeAlias = Callable[[bytes], object]
"""Reads an answer; a generator reads it in steps."""

_ENDPOINTS: Final = {3: ("host", 9093), 4: ("::1", 65535)}
_BATCHES: Final = leader_change_batch(0, 7).data + data_batch(1, [added(1), added(2)], epoch=7)
_FETCHED: Final = FetchAnswer(
    error_code=0,
    high_watermark=3,
    log_start_offset=0,
    leader_id=3,
    leader_epoch=7,
    diverging=EpochEnd(2, 9),
    snapshot=SnapshotId(11, 1),
    endpoints=_ENDPOINTS,
    records=_BATCHES,
)
_PIECE: Final = SnapshotAnswer(
    error_code=0,
    leader_id=3,
    leader_epoch=7,
    snapshot=SnapshotId(11, 1),
    size=99,
    data=_BATCHES,
    endpoints=_ENDPOINTS,
)
_INNER: Final = InnerRequest(api_key=ApiKey.CREATE_ACLS, api_version=3, body=b"", correlation_id=42)


@cache
def _readers() -> list[tuple[Reader, list[bytes]]]:
    """Return the reader of each answer in each version, with some answers."""
    return [*_make_readers()]


def _make_readers() -> Iterator[tuple[Reader, list[bytes]]]:
    for key, api in APIS.items():
        for version in api.versions:
            bodies = [*small_bodies(response_type(key, version))]
            yield partial(decode_response, key, version), bodies
    for version in REQUESTED_APIS[QuorumKey.FETCH].versions:
        bodies = [*small_bodies(load_response_schema(QuorumKey.FETCH, version))]
        yield partial(_read_fetch, version), [*bodies, write_fetch(version, _FETCHED)]
    for version in REQUESTED_APIS[QuorumKey.FETCH_SNAPSHOT].versions:
        bodies = [*small_bodies(load_response_schema(QuorumKey.FETCH_SNAPSHOT, version))]
        read = partial(_read_piece, version)
        yield read, [*bodies, write_fetch_snapshot(version, _PIECE)]
    for version in (1, 2, 3):
        described, created, deleted = (
            [*small_bodies(response_type(key, version))]
            for key in (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
        )
        yield partial(_read_listing, version), described
        yield partial(acl_client.decode_describe_acls_response, version), described
        yield partial(acl_client.decode_create_acls_response, version), created
        yield partial(acl_client.decode_delete_acls_response, version), deleted
        yield partial(_read_changed, decode_created, version), created
        yield partial(_read_changed, decode_deleted, version), deleted
    answers = [bytes.fromhex(each) for each in (JAVA_ANSWER_V1, JAVA_ANSWER_V3, JAVA_ERROR_97)]
    yield lambda body: decode_envelope(_INNER, bytearray(body)), answers


def _read_fetch(version: int, body: bytes) -> None:
    """Read fetched batches, and keep them as the follower does."""
    answer = decode_fetch(version, bytearray(body))
    assert "topic" not in repr(answer)
    batches = [*read_fetched_batches(answer.records)]
    log = FetchedLog(bytes_max=1 << 16)
    with rejected_with(GarbageError):
        log.append(batches, leader_epoch=max(0, answer.leader_epoch))


def _read_piece(version: int, body: bytes) -> None:
    decode_fetch_snapshot(version, bytearray(body))


def _read_changed(
    decode: Callable[[int, bytes, int], Steps[object]], version: int, body: bytes
) -> Steps[object]:
    """Read the answer to a change of one ACL, or with one filter."""
    return decode(version, body, 1)


def _read_listing(version: int, body: bytes) -> None:
    if acl_client.read_listing_head(version, body).error is None:
        acl_client.read_placed_listing(version, body)


def _seeds() -> Iterator[bytes]:
    for number, (_, bodies) in enumerate(_readers()):
        yield from (number.to_bytes(2) + body for body in bodies)


def _check_answer(data: bytes) -> Generator[None, None, None] | None:
    """An answer is read, or rejected at a place within it."""
    readers = _readers()
    read, _ = readers[int.from_bytes(data[:2]) % len(readers)]
    steps = None
    with rejected_with(DecodeError):
        steps = read(data[2:])
    return _read_in_steps(steps) if isinstance(steps, Generator) else None


def _read_in_steps(steps: Generator[Any, Any, Any]) -> Generator[None, None, None]:
    with rejected_with(DecodeError):
        yield from steps


def _check_connection(data: bytes) -> None:
    """Only an answer with the number of a request is one."""
    connection = KafkaClientConnection("client", 1 << 16)
    for key in (ApiKey.API_VERSIONS, ApiKey.DESCRIBE_ACLS, QuorumKey.FETCH):
        connection.frame_request(key, REQUESTED_APIS[key].last_version, b"")
    connection.receive_data(data)
    with rejected_with(DecodeError):
        while connection.next_response() is not None:
            pass


def _check_scram(data: bytes) -> None:
    """A broker that does not know the password proves nothing."""
    exchange = ScramExchange(SHA_256, "alice", "client-nonce")
    first, _, final = data.partition(b"\xff")
    with suppress(ScramError):  # the log and the commands escape the server's text
        challenge = exchange.read_challenge(first)
        check_signature(exchange.prove(challenge, SECRET.encode()), final)
        raise AssertionError("a broker without the password was accepted")


@asynccontextmanager
async def _hostile_node() -> AsyncIterator[Check]:
    """Connect, log in and ask, whatever comes back."""

    async def check(data: bytes) -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        await theirs.send_all(data)
        await theirs.send_eof()
        node = Node(Address("127.0.0.1", 1), ours, "client")
        # The log and the commands escape the server's text.
        with suppress(ConnectionFailedError, RequestFailedError):
            await node.negotiate()
            await log_in(node, _CREDENTIALS)
            await node.request(describe_quorum_call(), 1_000)
        await node.aclose()

    yield check


_CREDENTIALS: Final = Credentials(
    mechanism=Mechanism.PLAIN, username="alice", password=f"{SECRET} of alice"
)


def _conversations() -> Iterator[bytes]:
    """Yield the answers to ApiVersions, SaslHandshake, SaslAuthenticate and DescribeQuorum."""
    version_of = {key: api.last_version for key, api in APIS.items()}
    served = b"".join(
        key.to_bytes(2) + b"\0\0" + version.to_bytes(2) + b"\0"
        for key, version in version_of.items()
    )
    versions = b"\0\0" + bytes((len(APIS) + 1,)) + served + bytes(5)
    handshake, token, described = (
        [*small_bodies(response_type(key, version_of[key]))]
        for key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.DESCRIBE_QUORUM)
    )
    for last in described:
        yield b"".join((
            frame(bytes(4) + versions),
            frame(b"\0\0\0\1" + handshake[0]),
            frame(b"\0\0\0\2\0" + token[0]),
            frame(b"\0\0\0\3\0" + last),
        ))  # fmt: skip
    old = b"\0\x23\0\0\0\1\0\x12\0\0\0\3"
    yield frame(bytes(4) + old) + frame(b"\0\0\0\1" + versions)


CLIENT_TARGETS: Final = (
    reader("kafka-answers", _check_answer, _seeds, weight=60),
    reader("kafka-connection", _check_connection,
           lambda: (
               frame(b"\0\0\0\0" + b"a" * 9) + frame(b"\0\0\0\2\0bc") + frame(b"\0\0\0\1\0"),
               b"HTTP/1.1 400 Bad Request\r\n\r\n",
           ),
           weight=20),
    reader("scram-client", _check_scram,
           lambda: (
               b"r=client-nonce7,s=c2FsdHNhbHQ=,i=4096\xffv=" + b"A" * 43 + b"=",
               b"r=client-nonce7,s=c2FsdA==,i=999999,x=y\xffe=invalid-proof",
           ),
           words=(b"r=", b"s=", b"i=", b"m=", b"v=", b"e=", b"client-nonce"), weight=20),
    Target(name="hostile-node", place=_hostile_node, seeds=_conversations, weight=6),
)  # fmt: skip
