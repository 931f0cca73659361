"""Records of TLS 1.3 that the ssl module cannot send, such as KeyUpdate."""

import ssl
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

APPLICATION_DATA = 23
HANDSHAKE = 22
KEY_UPDATE = bytes((24, 0, 0, 1))  # followed by 1 to request one in return, else by 0

_SUITE_HASH = hashes.SHA384()  # of TLS_AES_256_GCM_SHA384, OpenSSL's first choice


class ClientRecords:
    """Encrypt a client's records after its handshake. Source: RFC 8446, section 7."""

    def __init__(self, key_log: Path, tls: ssl.SSLObject) -> None:
        suite = tls.cipher()
        assert suite is not None
        assert suite[0] == "TLS_AES_256_GCM_SHA384"
        lines = key_log.read_text().splitlines()
        secret = next(line for line in lines if line.startswith("CLIENT_TRAFFIC_SECRET_0"))
        self._use(bytes.fromhex(secret.rpartition(" ")[2]))

    def _use(self, secret: bytes) -> None:
        self._secret, self._sent = secret, 0
        self._cipher = AESGCM(_expand(secret, b"key", 32))
        self._nonce = int.from_bytes(_expand(secret, b"iv", 12))

    def encrypt(self, content: bytes, kind: int = APPLICATION_DATA) -> bytes:
        """Return the next record."""
        head = b"\x17\x03\x03" + (len(content) + 1 + 16).to_bytes(2)
        nonce = (self._nonce ^ self._sent).to_bytes(12)
        self._sent += 1
        return head + self._cipher.encrypt(nonce, content + bytes((kind,)), head)

    def update_key(self, *, is_requested: bool) -> bytes:
        """Return a KeyUpdate, and use the new key from now on."""
        record = self.encrypt(KEY_UPDATE + bytes((is_requested,)), HANDSHAKE)
        self._use(_expand(self._secret, b"traffic upd", _SUITE_HASH.digest_size))
        return record


def _expand(secret: bytes, label: bytes, size: int) -> bytes:
    label = b"tls13 " + label
    info = size.to_bytes(2) + bytes((len(label),)) + label + b"\0"
    return HKDFExpand(_SUITE_HASH, size, info).derive(secret)
