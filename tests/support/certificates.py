"""Certificates for tests, as PEM files: of a certificate authority (CA), servers and clients."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.support.daemon_process import SECONDS_MAX, connect

_VERSION_3 = bytes.fromhex("a003020102")
"""The field ``version`` of a certificate, which counts from 0."""


class Authority:
    """A CA that writes PEM files into ``folder``, all with keys of ``key_type``."""

    def __init__(
        self, folder: Path, name: str = "ca", key_type: trustme.KeyType = trustme.KeyType.ECDSA
    ) -> None:
        self.ca = trustme.CA(organization_name=name, key_type=key_type)
        self._key_type = key_type
        self._folder = folder
        self.ca_file = folder / f"{name}.pem"
        self.ca.cert_pem.write_to_path(self.ca_file)

    def issue(
        self,
        name: str,
        *hosts: str,
        common_name: str | None = None,
        not_before: datetime | None = None,
        not_after: datetime | None = None,
    ) -> Path:
        """Return a file with a new key and its certificate, for these hosts and addresses.

        Args:
            not_before: start of its validity; None: years ago.
            not_after: end of its validity; None: in many years.
        """
        identities = hosts or (f"{name}.test",)
        leaf = self.ca.issue_cert(
            *identities,
            common_name=common_name,
            organization_name="test",
            organization_unit_name="test",
            not_before=not_before,
            not_after=not_after,
            key_type=self._key_type,
        )
        path = self._folder / f"{name}.keystore.pem"
        # Replaced atomically, as renewal tools do.
        new = path.with_suffix(".new")
        leaf.private_key_and_cert_chain_pem.write_to_path(new)
        new.replace(path)
        return path

    def server_keys(self, prefix: str = "authorizerd.http.", **more: str) -> dict[str, str]:
        """Return the configuration of a server on 127.0.0.1; ``a_b`` sets the key ``ssl.a.b``."""
        keystore = self.issue("server", "127.0.0.1", "localhost")
        keys = {"keystore.location": str(keystore)}
        keys |= {key.replace("_", "."): value for key, value in more.items()}
        return {f"{prefix}ssl.{key}": value for key, value in keys.items()}

    def client_context(self, keystore: Path | None = None) -> ssl.SSLContext:
        """Return a client's context that trusts this CA, with the client's key in ``keystore``."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        if keystore is not None:
            context.load_cert_chain(keystore)
        return context


def convert_key(keystore: Path) -> Path:
    """Rewrite a keystore with its key in PKCS#8, which Java can read; return its path."""
    pem = keystore.read_bytes()
    key = load_pem_private_key(pem, None)
    converted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    keystore.write_bytes(converted + pem[pem.index(b"-----BEGIN CERTIFICATE") :])
    return keystore


def expired() -> datetime:
    """Return a date in the past, after trustme's first day of validity."""
    return datetime(2020, 1, 1, tzinfo=UTC)


def connect_tls(
    address: str, context: ssl.SSLContext, seconds_max: float = SECONDS_MAX
) -> ssl.SSLSocket:
    """Connect to ``host:port`` and do the handshake; each call may take ``seconds_max``.

    With TLS 1.3, the server's refusal of the client's certificate arrives with the first read.
    """
    plain = connect(address, seconds_max)
    try:
        secured = context.wrap_socket(plain, server_hostname=address.rpartition(":")[0])
    except BaseException:
        plain.close()
        raise
    return secured


def with_unknown_version(certificate: bytes) -> bytes:
    """Return a certificate in DER with version 30 instead of 3. Its signature does not fit."""
    assert certificate.count(_VERSION_3) == 1
    return certificate.replace(_VERSION_3, _VERSION_3[:-1] + b"\x1d")
