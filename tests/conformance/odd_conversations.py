"""Frames that no correct client sends, and log-ins of every kind.

**Invariant:** a conversation consists of the frames sent on one new connection, and its result is
the answer to the last frame.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import APIS, ApiKey
from tests.conformance.generated_requests import NOT_KAFKAS, Fields, encoded
from tests.conformance.kafka_peer import request_frame
from tests.kafka_rig.broker import ADMIN

PLAINTEXT, SASL_PLAINTEXT = "PLAINTEXT", "SASL_PLAINTEXT"
HANDSHAKE: Final = encoded(ApiKey.SASL_HANDSHAKE, 1, Fields(mechanism="PLAIN"))
SECRET: Final = f"{ADMIN}-secret"
TOKENS: Final = {
    "good": f"\0{ADMIN}\0{SECRET}".encode(),
    "good, as the same user": f"{ADMIN}\0{ADMIN}\0{SECRET}".encode(),
    "as another user": f"alters\0{ADMIN}\0{SECRET}".encode(),
    "wrong password": f"\0{ADMIN}\0no".encode(),
    "unknown user": b"\0stranger\0no",
    "no password": f"\0{ADMIN}\0".encode(),
    "no user": b"\0\0secret",
    "empty": b"",
    "two parts": f"{ADMIN}\0{SECRET}".encode(),
    "four parts": f"\0{ADMIN}\0{SECRET}\0".encode(),
    "not UTF-8": b"\0\xff\0\xff",
}


class Conversation(NamedTuple):
    """Frames for a listener."""

    name: str
    listener: str
    frames: tuple[bytes, ...]


UNANSWERED: Final = "request after the handshake"
"""The only difference: Kafka answers ILLEGAL_SASL_STATE before it closes the connection."""


def conversations() -> Iterator[Conversation]:
    yield from _odd_frames()
    yield from _unknown_versions()
    yield from _log_ins()
    yield from _out_of_turn()


def _odd_frames() -> Iterator[Conversation]:
    head = struct.pack(">hhi", ApiKey.SASL_HANDSHAKE, 1, 7)
    contents = {
        "nothing": b"",
        "one byte": b"\0",
        "half a header": head[:5],
        "no client id": head,
        "a client id longer than the frame": head + b"\0\5abc",
        "a client id that is not UTF-8": head + b"\0\2\xff\xfe" + HANDSHAKE,
        "a client id of negative length": head + b"\x80\0" + HANDSHAKE,
        "no body": head + b"\xff\xff",
        "a null mechanism": head + b"\xff\xff\xff\xff",
        "an unknown API": struct.pack(">hhih", 999, 0, 7, -1),
        "a negative API": struct.pack(">hhih", -1, 0, 7, -1),
        "a removed API": struct.pack(">hhih", 4, 0, 7, -1) + bytes(20),
        "tags in the header": struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1) + b"\1\x63\1x",
    }
    for name, content in contents.items():
        yield Conversation(name, PLAINTEXT, (frame(content),))
    for size in (-1, -(2**31), 2**31 - 1):
        yield Conversation(f"size {size}", PLAINTEXT, (struct.pack(">i", size),))


def _unknown_versions() -> Iterator[Conversation]:
    for api_key, api in APIS.items():
        if not api.is_on_brokers:
            continue
        after = api.last_version + 1
        for version in (after, 999, 32767, -1, -32768):
            request = request_frame(api_key, version, bytes(40))
            yield Conversation(f"{api.name} v{version}", PLAINTEXT, (request,))
        if api.first_version and (api_key, 0) not in NOT_KAFKAS:
            request = request_frame(api_key, 0, bytes(40))
            yield Conversation(f"{api.name} v0", PLAINTEXT, (request,))


def _log_ins() -> Iterator[Conversation]:
    for version in (0, 1):
        for mechanism in ("SCRAM-SHA-256", "plain", "", "PLAIN"):
            body = encoded(ApiKey.SASL_HANDSHAKE, version, Fields(mechanism=mechanism))
            request = request_frame(ApiKey.SASL_HANDSHAKE, version, body)
            name = f"handshake v{version} with {mechanism!r}"
            yield Conversation(name, SASL_PLAINTEXT, (request,))
    for name, token in TOKENS.items():
        frames = (_handshake(0), frame(token))
        yield Conversation(f"raw token: {name}", SASL_PLAINTEXT, frames)
        for version in APIS[ApiKey.SASL_AUTHENTICATE].versions:
            frames = (_handshake(1), _authenticate(token, version))
            yield Conversation(f"token v{version}: {name}", SASL_PLAINTEXT, frames)


def _out_of_turn() -> Iterator[Conversation]:
    good = _authenticate(TOKENS["good"], 2)
    versions = _api_versions("client", 3)
    describe = request_frame(ApiKey.DESCRIBE_CONFIGS, 1, bytes(5))
    stories: dict[str, tuple[bytes, ...]] = {
        "token first": (good,),
        "request first": (describe,),
        UNANSWERED: (_handshake(1), describe),
        "request after the log-in": (_handshake(1), good, describe),
        "raw token, then a request": (_handshake(0), frame(TOKENS["good"]), describe),
        "handshake twice": (_handshake(1), _handshake(1)),
        "handshake after the log-in": (_handshake(1), good, _handshake(1)),
        "token after the log-in": (_handshake(1), good, good),
        "raw token after handshake v1": (_handshake(1), frame(TOKENS["good"])),
        "SaslAuthenticate after handshake v0": (_handshake(0), good),
        "versions, handshake": (versions, _handshake(1)),
        "versions, log-in": (versions, _handshake(1), good, describe),
        "versions twice": (versions, versions),
        "versions twice, handshake": (versions, versions, _handshake(1)),
        "versions after the handshake": (_handshake(1), versions),
        "versions with an invalid client name, handshake": (_api_versions("-", 3), _handshake(1)),
        "unknown versions, handshake": (_api_versions("c", 99), _handshake(1)),
        "unknown versions, versions, handshake": (
            _api_versions("c", 99), versions, _handshake(1),
        ),
    }  # fmt: skip
    for name, frames in stories.items():
        yield Conversation(name, SASL_PLAINTEXT, frames)


def _handshake(version: int) -> bytes:
    return request_frame(ApiKey.SASL_HANDSHAKE, version, HANDSHAKE)


def _authenticate(token: bytes, version: int) -> bytes:
    body = encoded(ApiKey.SASL_AUTHENTICATE, version, Fields(auth_bytes=token))
    return request_frame(ApiKey.SASL_AUTHENTICATE, version, body)


def _api_versions(name: str, version: int) -> bytes:
    fields = Fields(client_software_name=name, client_software_version="1")
    return request_frame(ApiKey.API_VERSIONS, version, encoded(ApiKey.API_VERSIONS, 3, fields))
