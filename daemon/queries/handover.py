"""How a question's socket gets from a decision port to the query process."""

from __future__ import annotations

import errno
import os
import socket
from array import array

from authorizerd.protocol.queries import HEADER_BYTES_MAX, Header, decode_header, encode_header


def send_header(questions: socket.socket, header: Header, link: int) -> None:
    """Send a question's header and its socket, without waiting.

    Raises:
        OSError: they cannot be sent now, or the caller's name is too long.
    """
    data = encode_header(header)
    if len(data) > HEADER_BYTES_MAX:  # the rest would be lost
        raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
    # Not ``socket.send_fds``, which ignores flags.
    sent = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", (link,)))
    questions.sendmsg([data], [sent], socket.MSG_DONTWAIT)


def receive_header(questions: socket.socket) -> tuple[Header, socket.socket] | None:
    """Return the next header and its socket; None for one without a socket.

    Raises:
        BlockingIOError: there is none.
        EOFError: the daemon has closed its end.
    """
    data, received, _, _ = questions.recvmsg(
        HEADER_BYTES_MAX,
        socket.CMSG_LEN(array("i").itemsize),
        socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC,
    )
    if not data:
        raise EOFError
    for _, _, descriptors in received:
        return decode_header(data), socket.socket(fileno=array("i", descriptors)[0])
    return None
