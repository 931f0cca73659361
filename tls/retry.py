"""Ask a client for a second hello before its handshake costs much: TLS 1.3's HelloRetryRequest.

A peer that sends hellos and never answers then causes a tenth of the work of a key exchange and a
signature for each hello.

Source: RFC 8446, sections 4.1.4 and 4.2.2.
"""

from __future__ import annotations

import ssl
from typing import Final

from authorizerd.tls.client_hello import ClientHelloCheck, record_bytes
from authorizerd.tls.errors import TlsError


class BegunHandshake:
    """A server handshake that waits for the client's second hello, or still for the first."""

    __slots__ = ("check", "incoming", "outgoing", "tls")

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming: Final = ssl.MemoryBIO()
        self.outgoing: Final = ssl.MemoryBIO()
        self.check: Final = ClientHelloCheck()
        self.tls: Final = context.wrap_bio(self.incoming, self.outgoing, server_side=True)


def retry_hello(
    retrying: ssl.SSLContext, opening: bytes
) -> tuple[BegunHandshake, int, bytes] | None:
    """Return the handshake after a hello to be retried, the hello's size, and the answer to send.

    Return None, without side effects, if the hello cannot be retried or is invalid.

    Args:
        retrying: see ``new_retrying_context``.
        opening: the first bytes of a connection, with at least one whole record.
    """
    hello = opening[: record_bytes(opening)]
    begun = BegunHandshake(retrying)
    try:
        begun.check.check(hello)
    except TlsError:
        return None
    if not begun.check.may_be_retried:
        return None
    begun.incoming.write(hello)
    try:
        begun.tls.do_handshake()
    except ssl.SSLWantReadError:
        return begun, len(hello), begun.outgoing.read()
    except ssl.SSLError:
        pass
    return None
