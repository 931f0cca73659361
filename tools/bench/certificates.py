"""Certificates for servers on 127.0.0.1, from a CA that exists for one run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import trustme

from tools.bench.sets import HOST


class KeyKind(Enum):
    """The kinds of keys that servers' certificates usually have."""

    ECDSA = "ECDSA P-256"
    RSA = "RSA-2048"


_KEY_TYPES = {KeyKind.ECDSA: trustme.KeyType.ECDSA, KeyKind.RSA: trustme.KeyType.RSA}


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """PEM files: a server's chain, its key, both together, and the CA to trust."""

    chain_file: Path
    key_file: Path
    keystore_file: Path
    ca_file: Path

    def settings(self) -> dict[str, str]:
        """Return the settings of a daemon whose decision ports have this certificate."""
        return {
            "authorizerd.decision.http": f"https://{HOST}:0",
            "authorizerd.http.ssl.keystore.location": str(self.keystore_file),
            "authorizerd.http.ssl.keystore.type": "PEM",
        }


def issue_certificate(directory: Path, kind: KeyKind) -> Certificate:
    """Write the certificate of a new CA, and a server's certificate that the CA has signed."""
    authority = trustme.CA(key_type=_KEY_TYPES[kind])
    server = authority.issue_cert(HOST, key_type=_KEY_TYPES[kind])
    found = Certificate(
        chain_file=directory / f"{kind.name}.chain.pem",
        key_file=directory / f"{kind.name}.key.pem",
        keystore_file=directory / f"{kind.name}.keystore.pem",
        ca_file=directory / f"{kind.name}.ca.pem",
    )
    authority.cert_pem.write_to_path(found.ca_file)
    server.private_key_pem.write_to_path(found.key_file)
    server.private_key_and_cert_chain_pem.write_to_path(found.keystore_file)
    chain = b"".join(each.bytes() for each in server.cert_chain_pems)
    found.chain_file.write_bytes(chain)
    return found
