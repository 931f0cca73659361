"""A server that sends given bytes, whatever it receives."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count

import trio

from authorizerd.protocol.decisions.stream import encode_answer, encode_hello
from authorizerd.protocol.framing import Frames, frame
from authorizerd.protocol.kafka.error_codes import ErrorCode

FRAME_BYTES_MAX = 131_072
GREETING = encode_hello(ErrorCode.NONE, 7)

HELLO_FAULTS = {
    "closes": (b"", "ConnectionLostError"),
    "closes within the hello": (GREETING[:-1], "ConnectionLostError"),
    "another protocol": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "ProtocolError"),
    "a huge size": (b"\x7f\xff\xff\xff", "ProtocolError"),
    "not msgpack": (frame(b"\xc1"), "ProtocolError"),
    "an answer to questions": (encode_answer(1, 0, 0, b"\1"), "ProtocolError"),
    "refuses the token": (
        encode_hello(ErrorCode.SASL_AUTHENTICATION_FAILED, -1), "TokenRefusedError",
    ),
    "refuses the version": (
        encode_hello(ErrorCode.UNSUPPORTED_VERSION, -1), "UnsupportedVersionError",
    ),
    "has too many connections": (
        encode_hello(ErrorCode.THROTTLING_QUOTA_EXCEEDED, -1), "OverloadedError",
    ),
}  # fmt: skip
"""Invalid answers to a hello, and the name of the error that each causes in a client."""

ANSWER_FAULTS = {
    "closes": (b"", "ConnectionLostError"),
    "closes within the answer": (encode_answer(1, 0, 0, b"\1")[:-1], "ConnectionLostError"),
    "garbage": (b"\xff" * 40, "ProtocolError"),
    "a huge size": (b"\x7f\xff\xff\xff", "ProtocolError"),
    "a size above the limit": (b"\0\2\4\1", "ProtocolError"),
    "not msgpack": (frame(b"\xc1"), "ProtocolError"),
    "not an array": (frame(b"\1"), "ProtocolError"),
    "deep nesting": (
        frame(b"\x95\1\0\0\xc4\0" + b"\x91" * 3000 + b"\xc0"), "ProtocolError",
    ),
    "decisions as text": (frame(b"\x94\1\0\0\xa1\1"), "ProtocolError"),
    "a map": (frame(b"\x82\1\0\0\xc4\1\1"), "ProtocolError"),
    "decisions as an extension": (frame(b"\x94\1\0\0\xc7\1\0\1"), "ProtocolError"),
    "an extension's type as decision": (frame(b"\x94\1\0\0\xc7\0\1"), "ProtocolError"),
    "a second greeting": (GREETING, "ProtocolError"),
    "an answer to another question": (encode_answer(2, 0, 0, b"\1"), "ProtocolError"),
    "too few decisions": (encode_answer(1, 0, 0, b""), "ProtocolError"),
    "too many decisions": (encode_answer(1, 0, 0, b"\1\1"), "ProtocolError"),
    "an error with decisions": (
        encode_answer(1, ErrorCode.AUTHORIZER_NOT_READY, 0, b"\1"), "NotReadyError",
    ),
    "the offset is not reached": (
        encode_answer(1, ErrorCode.REQUEST_TIMED_OUT, 0, b""), "OffsetNotReachedError",
    ),
    "is overloaded": (
        encode_answer(1, ErrorCode.THROTTLING_QUOTA_EXCEEDED, 0, b""), "OverloadedError",
    ),
    "has no memory for the frame": (
        encode_answer(-1, ErrorCode.THROTTLING_QUOTA_EXCEEDED, 0, b""), "OverloadedError",
    ),
    "cannot read the questions": (
        encode_answer(1, ErrorCode.INVALID_REQUEST, 0, b""), "InvalidRequestError",
    ),
    "an unknown error": (encode_answer(1, -7, 0, b"\1"), "AnswerError"),
    "an invalid question": (encode_answer(1, 0, 0, b"\2"), "InvalidQuestionError"),
    "not ready for this question": (encode_answer(1, 0, 0, b"\3"), "NotReadyError"),
}  # fmt: skip
"""Answers without a decision, and the name of the error that each causes in a client."""


async def start_stand_in(
    nursery: trio.Nursery, *sent: bytes, then_closes: bool = True,
    unanswered: list[bytes] | None = None,
) -> str:  # fmt: skip
    """Return the address of a server that sends the next bytes each time it receives something.

    After the last bytes it closes the connection, or falls silent. Each connection begins with the
    first bytes.

    Args:
        unanswered: gets what a silent server receives; None if it does not read.
    """
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listeners[0].socket.getsockname()[1]

    async def converse(stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):
                for each in sent:
                    await stream.receive_some()
                    await stream.send_all(each)
                while unanswered is not None and (received := await stream.receive_some()):
                    unanswered.append(bytes(received))
                if not then_closes:
                    await trio.sleep_forever()

    await nursery.start(partial(trio.serve_listeners, converse, listeners))
    return f"tcp://127.0.0.1:{port}"


async def allow_all(stream: trio.SocketStream) -> None:
    """Allow each frame's only question, until the client closes the connection."""
    frames, ids = Frames(), count(1)
    while data := await stream.receive_some():
        frames.receive_data(bytes(data))
        while frames.next(FRAME_BYTES_MAX) is not None:
            await stream.send_all(encode_answer(next(ids), 0, 0, b"\1"))


async def start_server(
    nursery: trio.Nursery, converse: Callable[[int, trio.SocketStream], Awaitable[None]]
) -> str:
    """Return the address of a server that calls ``converse`` with each connection's number."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    numbers = count(1)

    async def greet(stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):
                await stream.receive_some()
                await stream.send_all(GREETING)
                await converse(next(numbers), stream)

    nursery.start_soon(trio.serve_listeners, greet, listeners)
    return f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
