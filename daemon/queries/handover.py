"""Pass a question's descriptors from a decision port to the query process."""

from __future__ import annotations

import errno
import os
import socket
from array import array

from authorizerd.protocol.queries import HEADER_BYTES_MAX, Header, decode_header, encode_header


def send_header(questions: socket.socket, header: Header, *descriptors: int) -> None:
    """Send a question's header and descriptors, without waiting.

    Args:
        descriptors: those of its socket, and of the file for a listing's lines.

    Raises:
        OSError: they cannot be sent now, or the caller's name is too long.
    """
    data = encode_header(header)
    if len(data) > HEADER_BYTES_MAX:  # the rest would be lost
        raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
    # Not ``socket.send_fds``, which ignores flags.
    sent = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))
    questions.sendmsg([data], [sent], socket.MSG_DONTWAIT)


def receive_header(questions: socket.socket) -> tuple[Header, socket.socket, int] | None:
    """Return the next header, its socket, and its file's descriptor or -1; None without a socket.

    Raises:
        BlockingIOError: there is none.
        EOFError: the daemon has closed its end.
    """
    data, received, _, _ = questions.recvmsg(
        HEADER_BYTES_MAX,
        socket.CMSG_LEN(2 * array("i").itemsize),
        socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC,
    )
    if not data:
        raise EOFError
    for _, _, descriptors in received:
        link, *files = array("i", descriptors)
        return decode_header(data), socket.socket(fileno=link), files[0] if files else -1
    return None
