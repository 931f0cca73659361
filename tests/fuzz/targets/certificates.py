"""TLS: the client's first records, a whole handshake, and the names in certificates."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final

import trio
import trio.testing
import trustme
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificate

from authorizerd.kafka_client.certificate_faults import read_host_names
from authorizerd.tls.client_hello import ClientHelloCheck
from authorizerd.tls.der import OBJECT_IDENTIFIER_BYTES_MAX, object_identifier_text, read_elements
from authorizerd.tls.distinguished_name import rfc2253, subject_name
from authorizerd.tls.errors import DistinguishedNameError, InvalidDerError, TlsError
from authorizerd.tls.stream import TlsStream
from tests.fuzz.target import Check, Target, alone, rejected_with
from tests.support.certificates import Authority

_RECORD_HEAD: Final = 5


@cache
def client_hello() -> bytes:
    """Return the first records of OpenSSL's client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("no server has answered")


@cache
def _certificates() -> tuple[bytes, ...]:
    authority = trustme.CA(organization_name="a, b")
    leaves = (
        authority.issue_cert("a.test", "10.0.0.1", common_name="é #"),
        authority.issue_cert("b.test", organization_unit_name="x+y"),
    )
    pems = (leaf.cert_chain_pems[0].bytes() for leaf in leaves)
    return tuple(load_pem_x509_certificate(pem).public_bytes(Encoding.DER) for pem in pems)


def _records(data: bytes) -> Iterator[bytes]:
    """Yield the records of a connection, as their lengths say."""
    while len(data) > _RECORD_HEAD:
        size = _RECORD_HEAD + int.from_bytes(data[3:_RECORD_HEAD])
        yield data[:size]
        data = data[size:]


def _check_hello(data: bytes) -> None:
    """Malformed messages pass on to OpenSSL; costly ones are rejected."""
    check = ClientHelloCheck()
    with rejected_with(TlsError):
        for record in _records(data):
            check.check(record)


def _check_certificate(data: bytes) -> Generator[None, None, None]:
    """A certificate has a name that can be shown and mapped, or is rejected."""
    with rejected_with(DistinguishedNameError):
        rfc2253(subject_name(data))
    with rejected_with(DistinguishedNameError):
        rfc2253(data)
    with rejected_with(InvalidDerError):
        for element in read_elements(data):
            object_identifier_text(element.content[: OBJECT_IDENTIFIER_BYTES_MAX + 1])
            yield
    read_host_names(data)


@asynccontextmanager
async def _server() -> AsyncIterator[Check]:
    """A handshake ends with TlsError, or when the client ends it."""
    with tempfile.TemporaryDirectory() as folder:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(Authority(Path(folder)).issue("server", "localhost"))

        async def check(data: bytes) -> None:
            ours, theirs = trio.testing.memory_stream_pair()
            await theirs.send_all(data)
            await theirs.send_eof()
            server = TlsStream(ours, context, server_side=True)
            with rejected_with(TlsError, trio.BrokenResourceError):
                await server.handshake()
            await trio.aclose_forcefully(server)

        yield check


CERTIFICATE_TARGETS: Final = (
    Target(
        name="client-hellos", place=alone(_check_hello), seeds=lambda: (client_hello(),), weight=40
    ),
    Target(name="tls-handshakes", place=_server, seeds=lambda: (client_hello(),), weight=3),
    Target(
        name="certificates",
        place=alone(_check_certificate),
        seeds=lambda: (
            *_certificates(),
            *map(subject_name, _certificates()),
            bytes.fromhex("300f310d300b06035504031e04726f6f74"),
        ),
        weight=20,
    ),
)
