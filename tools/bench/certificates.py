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


@dataclass(frozen=True, slots=True)
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
    key_type = trustme.KeyType[kind.name]
    authority = trustme.CA(key_type=key_type)
    server = authority.issue_cert(HOST, key_type=key_type)
    names = ("chain", "key", "keystore", "ca")
    found = Certificate(*(directory / f"{kind.name}.{name}.pem" for name in names))
    authority.cert_pem.write_to_path(found.ca_file)
    server.private_key_pem.write_to_path(found.key_file)
    server.private_key_and_cert_chain_pem.write_to_path(found.keystore_file)
    found.chain_file.write_bytes(b"".join(each.bytes() for each in server.cert_chain_pems))
    return found
