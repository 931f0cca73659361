"""Answer a client's first hello on the event loop, before its connection has a task.

The answer is the server's whole first flight if that is quick. Under a flood of hellos, it is TLS
1.3's HelloRetryRequest: a peer that sends hellos and never answers then causes a tenth of the work
of a key exchange and a signature for each hello.

**Invariant:** a second hello is checked like the first, whatever caused the HelloRetryRequest: a
client gets one, too, if it sends no share of a group that the server accepts.

Source: RFC 8446, sections 4.1.4 and 4.2.2.
"""

from __future__ import annotations

import ssl
from typing import Final

from authorizerd.tls.client_hello import ClientHelloCheck, is_last_answer, record_bytes
from authorizerd.tls.errors import TlsError


class BegunHandshake:
    """A server handshake that waits for the client's answer, or still for its hello.

    ``is_retried`` is True if the client's answer is a second hello.
    """

    __slots__ = ("check", "incoming", "is_retried", "outgoing", "tls")

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming: Final = ssl.MemoryBIO()
        self.outgoing: Final = ssl.MemoryBIO()
        self.check: Final = ClientHelloCheck()
        self.is_retried = False
        self.tls: Final = context.wrap_bio(self.incoming, self.outgoing, server_side=True)


def answer_hello(
    context: ssl.SSLContext, opening: bytes, *, is_retried: bool
) -> tuple[BegunHandshake, int] | None:
    """Return the handshake after a hello, with the answer to be sent, and the hello's size.

    Return None, without side effects, if the hello is invalid, or cannot be answered so.

    Args:
        context: with ``is_retried``, see ``new_retrying_context``.
        opening: the first bytes of a connection, with at least one whole record.
        is_retried: True to ask for a second hello; False to answer a quick one (``is_quick``).
    """
    hello = opening[: record_bytes(opening)]
    begun = BegunHandshake(context)
    try:
        begun.check.check(hello)
    except TlsError:
        return None
    if not (begun.check.may_be_retried if is_retried else begun.check.is_quick):
        return None
    begun.incoming.write(hello)
    try:
        begun.tls.do_handshake()
    except ssl.SSLWantReadError:
        answer = begun.outgoing.read()
        begun.outgoing.write(answer)
        begun.is_retried = not is_last_answer(answer)
        return begun, len(hello)
    except ssl.SSLError:
        pass
    return None
