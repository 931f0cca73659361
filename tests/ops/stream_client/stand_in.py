"""A server that says what a test tells it to, whatever it is asked."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import trio

from authorizerd.protocol.decisions.stream import StreamQuestion, encode_answer, encode_hello
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.error_codes import ErrorCode

GREETING = encode_hello(ErrorCode.NONE, 7)
ALICE: StreamQuestion = ("User:alice", None, "READ", "TOPIC", "orders")
BOB: StreamQuestion = ("User:bob", None, "READ", "TOPIC", "orders")
ENOUGH_S = 20

NO_GREETINGS = {
    "closes": b"",
    "closes within the greeting": GREETING[:-1],
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "no msgpack": frame(b"\xc1"),
    "an answer for a greeting": encode_answer(1, 0, 0, b"\1"),
    "refuses the token": encode_hello(ErrorCode.SASL_AUTHENTICATION_FAILED, -1),
    "refuses the version": encode_hello(ErrorCode.UNSUPPORTED_VERSION, -1),
}
NO_ANSWERS = {
    "closes": b"",
    "closes within the answer": encode_answer(1, 0, 0, b"\1")[:-1],
    "garbage": b"\xff" * 40,
    "a huge size": b"\x7f\xff\xff\xff",
    "no msgpack": frame(b"\xc1"),
    "deep nesting": frame(b"\x95\1\0\0\xc4\0" + b"\x91" * 3000 + b"\xc0"),
    "decisions as text": frame(b"\x94\1\0\0\xa1\1"),
    "a second greeting": GREETING,
    "an answer to another question": encode_answer(2, 0, 0, b"\1"),
    "too few decisions": encode_answer(1, 0, 0, b""),
    "too many decisions": encode_answer(1, 0, 0, b"\1\1"),
    "an error with decisions": encode_answer(1, ErrorCode.AUTHORIZER_NOT_READY, 0, b"\1"),
    "an error": encode_answer(1, ErrorCode.REQUEST_TIMED_OUT, 0, b""),
    "an error that nobody knows": encode_answer(1, -7, 0, b"\1"),
}


async def start_stand_in(nursery: trio.Nursery, *said: bytes, then_closes: bool = True) -> str:
    """Return the address of one that says the next thing each time that it is sent something.

    Then it closes, or reads no more.
    """
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listeners[0].socket.getsockname()[1]

    async def converse(stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):
                for each in said:
                    await stream.receive_some()
                    await stream.send_all(each)
                if not then_closes:
                    await trio.sleep_forever()

    await nursery.start(partial(trio.serve_listeners, converse, listeners))
    return f"127.0.0.1:{port}"
