"""TLS: the client's first records, a whole handshake, the names in certificates, and stores."""

import ssl
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import trio
import trio.testing
import trustme
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_der_x509_certificate, load_pem_x509_certificate

from authorizerd.config.principals.mapping import PrincipalMapping
from authorizerd.config.tls import ClientAuth, Store, TlsSettings
from authorizerd.kafka_client.certificate_faults import read_host_names
from authorizerd.tls.client_hello import ClientHelloCheck
from authorizerd.tls.der import OBJECT_IDENTIFIER_BYTES_MAX, object_identifier_text, read_elements
from authorizerd.tls.distinguished_name import rfc2253, subject_name
from authorizerd.tls.errors import DistinguishedNameError, InvalidDerError, StoreError, TlsError
from authorizerd.tls.material import describe_certificate, find_other_name, read_material
from authorizerd.tls.stream import TlsStream
from tests.fuzz.target import (
    LINES_IN_THREAD_MAX,
    OWN_CHARACTERS_MAX,
    SECRET,
    Check,
    Target,
    reader,
    rejected_with,
)
from tests.support.certificates import Authority

_RECORD_HEAD: Final = 5


@cache
def client_hello() -> bytes:
    """Return the first records of OpenSSL's client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
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
    with rejected_with(StoreError):
        describe_certificate(data)


def _new_store(data: str | None, location: str | None = None) -> Store:
    return Store(
        type=None,
        location=location,
        password=f"{SECRET} of the store",
        certificates=data,
        key=data,
        key_password=f"{SECRET} of the key",
        key_name="ssl.keystore.location",
    )


@asynccontextmanager
async def _stores() -> AsyncIterator[Check]:
    """A keystore has a key that fits its certificate, and a fault never quotes a password."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")

        def check(data: bytes) -> None:
            path.write_bytes(data)
            text = data.decode("utf-8", "replace")
            for store in (_new_store(text), _new_store(None, str(path))):
                settings = replace(_NO_STORES, keystore=store)
                with rejected_with(StoreError, characters=OWN_CHARACTERS_MAX):
                    found = read_material(settings)
                    key = load_der_private_key(found.key, None).public_key()
                    assert load_der_x509_certificate(found.chain[0]).public_key() == key
                trusting = replace(_NO_STORES, truststore=replace(store, key=None))
                with rejected_with(StoreError, characters=OWN_CHARACTERS_MAX):
                    for certificate in read_material(trusting).trusted:
                        describe_certificate(certificate)
                        find_other_name(certificate, _certificates()[0], settings)

        yield check


_NO_STORES: Final = TlsSettings(
    keystore=None,
    truststore=None,
    client_auth=ClientAuth.NONE,
    protocols=(),
    cipher_suites=(),
    checks_host=True,
    principal_mapping=PrincipalMapping.parse("DEFAULT"),
)


def _store_seeds() -> Iterator[bytes]:
    """Yield PEM with a plain and an encrypted key, and PKCS12 with few rounds."""
    leaf = trustme.CA().issue_cert("a.test")
    pem = leaf.private_key_and_cert_chain_pem.bytes()
    yield pem
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    certificate = load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes())
    encrypted = BestAvailableEncryption(f"{SECRET} of the key".encode())
    yield (
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encrypted)
        + pem[pem.find(_PEM_BEGIN) :]
    )
    rounds = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(1)
    password = rounds.build(f"{SECRET} of the store".encode())
    yield pkcs12.serialize_key_and_certificates(b"a", key, certificate, [certificate], password)
    yield bytes.fromhex("feedfeed0000000200000000")


_PEM_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"


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
    reader("client-hellos", _check_hello, lambda: (client_hello(),), weight=40),
    Target(name="tls-handshakes", place=_server, seeds=lambda: (client_hello(),), weight=3),
    Target(name="stores", place=_stores, seeds=_store_seeds,
           words=(_PEM_BEGIN, b"-----END PRIVATE KEY-----", b"ENCRYPTED", b"\n", b"MII"), weight=3,
           lines_max=LINES_IN_THREAD_MAX),
    reader("certificates", _check_certificate,
           lambda: (
               *_certificates(),
               *map(subject_name, _certificates()),
               bytes.fromhex("300f310d300b06035504031e04726f6f74"),
           ),
           weight=20),
)  # fmt: skip
