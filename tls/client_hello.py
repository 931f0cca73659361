"""Reject a client's first TLS message if it makes the server's key exchange expensive.

An OpenSSL server accepts finite-field key shares of up to 8192 bits. One such message of 1.3 KB
occupies a handshake thread for longer than a hundred usual handshakes, and Python's ssl module
cannot disable these groups. No client needs them: every TLS 1.3 client also supports an elliptic
curve (RFC 8446, section 9.1).

**Invariant:** OpenSSL gets only key shares on a curve, or in a 2048-bit field.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from authorizerd.tls.errors import TlsError

CLIENT_HELLO_BYTES_MAX: Final = 16 * 1024
"""OpenSSL allocates the announced size, up to 128 KiB. Typical messages are below 2 KiB."""

RETRY_CURVE: Final = "prime256v1"
"""OpenSSL's name of the only curve that the server requests in a HelloRetryRequest."""

_HANDSHAKE_RECORD: Final = 0x16
_RECORD_HEADER_BYTES: Final = 5
_CLIENT_HELLO: Final = 1
_MESSAGE_HEADER_BYTES: Final = 4  # type and length
_VERSION_AND_RANDOM_BYTES: Final = 2 + 32
_GROUPS: Final = 10
_VERSIONS: Final = 43
_KEY_SHARE: Final = 51
_TLS_1_3: Final = b"\x03\x04"
_RETRY_GROUP: Final = b"\x00\x17"  # secp256r1, see RETRY_CURVE
_QUICK_GROUPS: Final = frozenset({0x17, 0x1D, 0x11EB, 0x11EC})
"""P-256 and X25519, alone and with ML-KEM-768. OpenSSL takes ten times as long for other curves."""
QUICK_BYTES_MAX: Final = 2048
"""A larger hello may have dozens of session tickets, and OpenSSL tries to decrypt each one."""
_LARGE_FIELDS: Final = frozenset(range(0x0101, 0x0200))  # ffdhe3072 and larger ones
_ITEMS_MAX: Final = 64
_RANDOM: Final = slice(11, 11 + 32)  # in the record of a ServerHello
_RETRY: Final = hashlib.sha256(b"HelloRetryRequest").digest()  # RFC 8446, section 4.1.3


class ClientHelloCheck:
    """Checks a client's records until the server answers with more than a HelloRetryRequest.

    ``may_be_retried`` is True if the last hello lacks a share of RETRY_CURVE that a server can ask
    for; ``is_quick`` if it begins a handshake of TLS 1.3 with a quick key exchange.
    """

    def __init__(self) -> None:
        self._received = bytearray()
        self.may_be_retried = False
        self.is_quick = False

    def check(self, record: bytes | bytearray) -> None:
        """Check the next record, header included. A message may take several records.

        A malformed ClientHello passes this check: OpenSSL rejects it.

        Raises:
            TlsError: the message is not a ClientHello, is too large, or has a large key share.
        """
        if record[0] != _HANDSHAKE_RECORD:
            return
        received = self._received
        received += record[_RECORD_HEADER_BYTES:]
        while len(received) >= _MESSAGE_HEADER_BYTES:
            if received[0] != _CLIENT_HELLO:
                raise TlsError(f"expected a ClientHello, found message type {received[0]}")
            size = _MESSAGE_HEADER_BYTES + int.from_bytes(received[1:_MESSAGE_HEADER_BYTES])
            if size > CLIENT_HELLO_BYTES_MAX:
                raise TlsError(
                    f"the ClientHello has {size} bytes: expected at most {CLIENT_HELLO_BYTES_MAX}"
                )
            if len(received) < size:
                return
            self._read(bytes(received[_MESSAGE_HEADER_BYTES:size]))
            del received[:size]

    def _read(self, hello: bytes) -> None:
        extensions = _read_extensions(hello)
        shares = _read_shares(extensions)
        if not _LARGE_FIELDS.isdisjoint(shares):
            raise TlsError("the client's key share has more than 2048 bits: use a curve")
        offers_tls_1_3 = _TLS_1_3 in _read_list(extensions, _VERSIONS, 1)
        self.may_be_retried = (
            offers_tls_1_3
            and int.from_bytes(_RETRY_GROUP) not in shares
            and _RETRY_GROUP in _read_list(extensions, _GROUPS, 2)
        )
        is_small = len(hello) <= QUICK_BYTES_MAX
        self.is_quick = offers_tls_1_3 and is_small and _QUICK_GROUPS.issuperset(shares)


def is_whole_record(opening: bytes) -> bool:
    """Return True if a connection's first bytes contain a whole record, or are not TLS."""
    return opening[0] != _HANDSHAKE_RECORD or len(opening) >= record_bytes(opening)


def record_bytes(opening: bytes) -> int:
    """Return the size of the first record, with its header; at least the header's."""
    length = opening[_RECORD_HEADER_BYTES - 2 : _RECORD_HEADER_BYTES]
    return _RECORD_HEADER_BYTES + int.from_bytes(length)


def is_last_answer(records: bytes) -> bool:
    """Return True if a server that has sent ``records`` will not accept another ClientHello."""
    return records[0] == _HANDSHAKE_RECORD and records[_RANDOM] != _RETRY


def _read_extensions(hello: bytes) -> dict[int, bytes]:
    rest = hello[_VERSION_AND_RANDOM_BYTES:]
    for length_bytes in (1, 2, 1):  # session, cipher suites and compression methods
        _, rest = _split(rest, length_bytes)
    extensions, _ = _split(rest, 2)
    return dict(_read_pairs(extensions))  # OpenSSL rejects a hello with a repeated extension


def _read_shares(extensions: Mapping[int, bytes]) -> list[int]:
    shares, _ = _split(extensions.get(_KEY_SHARE, b""), 2)
    return [group for group, _ in _read_pairs(shares)]


def _read_list(extensions: Mapping[int, bytes], key: int, length_bytes: int) -> list[bytes]:
    """Return the 2-byte items of an extension."""
    data, _ = _split(extensions.get(key, b""), length_bytes)
    return [data[start : start + 2] for start in range(0, len(data), 2)]


def _read_pairs(data: bytes) -> list[tuple[int, bytes]]:
    """Return pairs of a 2-byte number and the length-prefixed content after it.

    Raises:
        TlsError: there are more than _ITEMS_MAX.
    """
    pairs, start = list[tuple[int, bytes]](), 0
    while start < len(data):
        if len(pairs) == _ITEMS_MAX:
            raise TlsError(f"the ClientHello has a list of more than {_ITEMS_MAX} items")
        content, end = start + 4, start + 4 + int.from_bytes(data[start + 2 : start + 4])
        pairs.append((int.from_bytes(data[start : start + 2]), data[content:end]))
        start = end
    return pairs


def _split(data: bytes, length_bytes: int) -> tuple[bytes, bytes]:
    """Return the content after a length prefix, and the rest; missing bytes are left out."""
    end = length_bytes + int.from_bytes(data[:length_bytes])
    return data[length_bytes:end], data[end:]
