"""The Kafka wire: frames, all requests of all versions, Envelopes, handlers and authentication."""

from base64 import b64decode
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any, Final

import trio

from authorizerd.acl.steps import Steps, finish
from authorizerd.daemon.kafka.errors import (
    AuthenticationError,
    OutOfTurnError,
    SessionExpiredError,
)
from authorizerd.daemon.kafka.login.authentication import SaslExchange
from authorizerd.daemon.kafka.login.sasl_plain import authenticate_plain
from authorizerd.daemon.kafka.login.sasl_scram import ScramExchange
from authorizerd.kafka_client import scram
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.envelope import EnvelopeError, decode_principal, open_envelope
from authorizerd.protocol.kafka.messages import (
    count_items,
    decode_request,
    decode_response,
    encode_request,
)
from authorizerd.protocol.kafka.server_connection import (
    KafkaRequest,
    KafkaServerConnection,
    read_request,
)
from authorizerd.protocol.records.scram import salt_password
from tests.daemon.kafka_service import ROOT, KafkaService, start
from tests.fuzz.target import (
    SECRET,
    Check,
    Target,
    check_message,
    in_pieces,
    reader,
    rejected_with,
)
from tests.loop.kafka_requests import acl_requests, enveloped, is_forwardable, requests_of
from tests.support.acl_messages import decode_create_acls, decode_delete_acls, decode_describe_acls
from tests.support.acls import acl
from tests.support.envelopes import ALICE
from tests.support.sasl import SHA_256, LoadedCredentials, credential_of, sasl_settings

SEED_BYTES_MAX: Final = 2_000
ITEMS: Final = 3
ALICE_NAME, NONCE = "alice", "server-nonce"
PASSWORD: Final = f"{SECRET} of alice"
_READING: Final = frozenset(
    key for key in ApiKey if not key.name.startswith(("ALTER", "CREATE", "DELETE", "INCREMENTAL"))
) - {ApiKey.ENVELOPE}
"""APIs that change nothing."""
_OF_LISTENER: Final = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
"""APIs that the listener answers itself."""
_PROOF: Final = b",p="
_SEPARATOR: Final = b"\xff\xfe"


@cache
def request_frames() -> tuple[bytes, ...]:
    """Return requests of every API and version, with their sizes."""
    return tuple(_request_frames())


def _request_frames() -> Iterator[bytes]:
    for api_key, api in APIS.items():
        for version in api.versions:
            for request in requests_of(api_key, version, items=ITEMS):
                data = request.frame()
                if len(data) < SEED_BYTES_MAX:
                    yield data
    for api_key in filter(is_forwardable, APIS):
        for version in APIS[api_key].versions:
            for request in requests_of(api_key, version, items=ITEMS, is_plain=True):
                yield enveloped(request, version % 2, "User:alice").frame()
    for request in acl_requests(APIS[ApiKey.CREATE_ACLS].last_version):
        if "filter" in request.name or "ACLs of" in request.name:
            yield request.frame()


def _requests() -> Iterator[bytes]:
    return (data[4:] for data in request_frames())


def _check_frames(data: bytes) -> Generator[None, None, None]:
    """The same bytes give the same requests, however they are split."""
    whole = yield from _read_frames([data])
    assert (yield from _read_frames(in_pieces(data))) == whole


def _read_frames(pieces: list[bytes]) -> Steps[list[object]]:
    """Return the requests, one in each step, and the error after them."""
    found: list[object] = []
    connection = KafkaServerConnection(1 << 16)
    try:
        for piece in pieces:
            connection.receive_data(piece)
            while (request := connection.next_request()) is not None:
                assert SECRET not in repr(request)
                found.append((request.api_key, request.api_version, bytes(request.body)))
                yield
            yield
    except DecodeError as error:
        check_message(str(error))
        assert connection.bytes_held <= 1 << 16
        found.append(error.reason)
    return found


def _check_request(data: bytes) -> Generator[None, None, None]:
    """A body is an entity that is written and read again, or an error at a place within it."""
    try:
        request = read_request(bytearray(data))
    except DecodeError as error:
        check_message(str(error))
        return
    if not request.is_served:
        return
    body = bytes(request.body)
    entity: Any = None
    with rejected_with(DecodeError):
        entity = yield from decode_request(request.api_key, request.api_version, body)
    if entity is not None:
        written = finish(encode_request(request.api_key, request.api_version, entity))
        again = finish(decode_request(request.api_key, request.api_version, written))
        assert again == entity or "nan" in repr(entity)
    yield from _check_fast(request, body, entity)


def _check_fast(request: KafkaRequest, body: bytes, entity: Any) -> Steps[None]:  # noqa: ANN401
    """Check that the readers of large requests read what the general one reads."""
    key, version = request.api_key, request.api_version
    with rejected_with(DecodeError, EnvelopeError):
        if key is ApiKey.CREATE_ACLS:
            acls, _ = yield from decode_create_acls(version, body)
            assert entity is None or len(entity.creations) == len(acls)
            for one, other in zip(acls, entity.creations if entity else (), strict=False):
                assert one.principal == other.principal
                assert (one.resource_name, one.operation) == (other.resource_name, other.operation)
            assert count_items(key, version, body) == len(acls)
        elif key is ApiKey.DELETE_ACLS:
            filters, _ = yield from decode_delete_acls(version, body)
            assert entity is None or len(entity.filters) == len(filters)
        elif key is ApiKey.DESCRIBE_ACLS:
            wanted, _ = decode_describe_acls(version, body)
            assert entity is None or entity.filter == wanted
        elif key is ApiKey.ENVELOPE:
            forwarded = yield from open_envelope(bytearray(body))
            assert ":" in forwarded.principal
            assert is_forwardable(forwarded.request.api_key)


def _check_principal(data: bytes) -> None:
    with rejected_with(DecodeError):
        kind, colon, _ = decode_principal(data).partition(":")
        assert colon
        assert ":" not in kind


@asynccontextmanager
async def _handlers() -> AsyncIterator[Check]:
    """Nobody without rights changes anything, and each answer is one of its API."""
    async with trio.open_nursery() as nursery:
        held = acl("User:alice", "READ", topic="t0")
        service = await start(nursery, held, acl("User:*", "DESCRIBE", cluster=True))
        before = service.acls

        async def check(data: bytes) -> None:
            with suppress(DecodeError):
                request = read_request(bytearray(data))
                if request.is_served and request.api_key not in _OF_LISTENER:
                    await _answer(service, request, len(data))
                    assert service.acls == before
                    service.events.clear()

        yield check
        nursery.cancel_scope.cancel()


async def _answer(service: KafkaService, request: KafkaRequest, size: int) -> None:
    key, version = request.api_key, request.api_version
    may_be_root = key in _READING and size % 2
    body = bytes(request.body)
    answer = await service.raw(
        key, version, body, principal=ROOT if may_be_root else "User:nobody",
        listener_name="CONTROLLER",
    )  # fmt: skip
    assert answer
    finish(decode_response(key, version, answer))


def _check_plain(data: bytes) -> None:
    """Only the one password logs in."""
    with rejected_with(AuthenticationError):
        assert authenticate_plain(data, _SETTINGS.users) == ALICE_NAME
        assert data.split(b"\0")[1:] == [ALICE_NAME.encode(), PASSWORD.encode()]


def _check_scram(data: bytes) -> None:
    """Only the messages of a client that knows the password log in."""
    exchange = ScramExchange(SHA_256, _CREDENTIALS.look_up, NONCE)
    first, _, final = data.partition(_SEPARATOR)
    with rejected_with(AuthenticationError):
        exchange.answer(first)
        assert exchange.user is None
        exchange.answer(final)
    if exchange.user is not None:
        unproved, _, proof = final.partition(_PROOF)
        expected, _, proven = _PROVEN[1].partition(_PROOF)
        assert (first, unproved) == (_PROVEN[0], expected)
        assert b64decode(proof) == b64decode(proven)  # one value has several texts


def _check_sasl(data: bytes) -> None:
    """No sequence of requests and tokens logs in without the password."""
    exchange = SaslExchange(_SETTINGS, _CREDENTIALS)
    now = 0.0
    is_named = False
    with suppress(OutOfTurnError, SessionExpiredError):
        for step in data.split(_SEPARATOR):
            now += step[0] if step else 0
            if step.startswith(b"versions"):
                exchange.accept_versions_request()
            elif step.startswith(b"choose "):
                name = step[len(b"choose ") + 1 :].decode("utf-8", "replace")
                exchange.choose_mechanism(
                    name, step[len(b"choose ") : len(b"choose ") + 1] == b"1", now
                )
            else:
                answer = exchange.authenticate(step, now)
                nonce = step.partition(b"r=")[2]  # SCRAM returns it
                assert answer is None or SECRET not in repr(answer) or SECRET.encode() in nonce
                is_named = is_named or SECRET.encode() in _claimed_name(step)
            if exchange.has_failed:
                break
    assert SECRET not in exchange.failure or is_named
    assert exchange.principal is None or _PLAIN in data


def _claimed_name(token: bytes) -> bytes:
    """Return the user's name in a token of PLAIN or SCRAM: the failure of its log-in has it."""
    parts = token.split(b"\0")
    return parts[1] if len(parts) == 3 else token.partition(b"n=")[2].partition(b",")[0]


def _scram_messages() -> tuple[bytes, bytes]:
    """Return the messages of a client that knows the password, the same in each process."""
    client = scram.ScramExchange(SHA_256, ALICE_NAME, "client-nonce")
    exchange = ScramExchange(SHA_256, _CREDENTIALS.look_up, NONCE)
    challenge = client.read_challenge(exchange.answer(client.first))
    salted = salt_password(SHA_256, PASSWORD, challenge.salt, challenge.iterations)
    return client.first, client.prove(challenge, salted).message


_SETTINGS: Final = sasl_settings("SCRAM-SHA-256", users={ALICE_NAME: PASSWORD}, session_ms=9_000)
_CREDENTIALS: Final = LoadedCredentials(credential_of(ALICE_NAME, PASSWORD))
_PROVEN: Final = _scram_messages()
_PLAIN: Final = b"\0%b\0%b" % (ALICE_NAME.encode(), PASSWORD.encode())
_STEPS: Final = (b"versions", b"choose 1PLAIN", b"choose 0PLAIN", b"choose 1SCRAM-SHA-256")

KAFKA_TARGETS: Final = (
    reader("kafka-frames", _check_frames, request_frames, weight=20),
    reader("kafka-requests", _check_request, _requests, weight=60),
    reader("kafka-principals", _check_principal,
           lambda: (ALICE, bytes.fromhex("000005557365720b7a61686c756e672dc3bc0100")), weight=20),
    Target(name="kafka-handlers", place=_handlers, seeds=_requests, weight=10,
           lines_max=40 * 50_000),
    reader("sasl-plain", _check_plain, lambda: (_PLAIN, b"alice" + _PLAIN), words=(b"\0",),
           weight=30),
    reader("sasl-scram", _check_scram,
           lambda: (_SEPARATOR.join(_PROVEN), b"n,a=alice,n=alice,r=x,tokenauth=true"),
           words=(b"n,,", b"r=", b",m=a", b"c=biws", b"p=", b"=2C", b"=3D", b"y,,", b",x=y"),
           weight=30),
    reader("sasl-sequence", _check_sasl,
           lambda: (
               _SEPARATOR.join((_STEPS[0], _STEPS[1], _PLAIN, _STEPS[1], _PLAIN)),
               _SEPARATOR.join((_STEPS[3], b"n,,n=alice,r=x", b"c=biws,r=x,p=YQ==")),
           ),
           words=tuple(_SEPARATOR + each + _SEPARATOR for each in (*_STEPS, _PLAIN)), weight=20),
)  # fmt: skip
