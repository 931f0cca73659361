"""The largest allowed frames of the decision stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from authorizerd.config.own_keys import OWN_KEYS
from authorizerd.protocol.decisions.stream import StreamClientConnection, StreamQuestion

FRAME_BYTES: Final = next(
    int(str(key.default)) for key in OWN_KEYS if key.name == "authorizerd.stream.frame.max.bytes"
)
FRAMES_AT_ONCE: Final = 300


@dataclass(frozen=True)
class StreamFrames:
    """Frames with ``answers`` answers."""

    name: str
    data: bytes = field(repr=False)
    answers: int = 1

    def __str__(self) -> str:
        return f"stream: {self.name}"


_QUESTIONS: Final[dict[str, Callable[[int], StreamQuestion]]] = {
    "short questions": lambda n: ("User:alice", "10.0.0.1", 3, 2, "t"),
    "questions about other topics": lambda n: ("User:alice", "10.0.0.1", 3, 2, f"topic-{n}"),
    "questions about others": lambda n: (f"User:u{n}", "10.0.0.1", 3, 2, "orders"),
    "questions without a host": lambda n: ("User:bob", None, 3, 2, f"topic-{n % 50}"),
    "questions about prefixes": lambda n: ("User:u1", "10.0.0.1", 3, 2, f"{n % 500}-" + "x" * 200),
    "questions by name": lambda n: ("User:alice", "::1", "READ", "TOPIC", "t"),
    "unknown types": lambda n: ("User:alice", None, "NO", "NO", "t"),
    "invalid hosts": lambda n: ("User:alice", "no host", 3, 2, "t"),
    "questions about everyone": lambda n: ("User:*", "10.0.0.1", 3, 2, "t"),
    "long names": lambda n: ("User:alice", "10.0.0.1", 3, 2, "x" * 30_000),
}


def frames() -> Iterator[StreamFrames]:
    client = StreamClientConnection(FRAME_BYTES)
    for name, question in _QUESTIONS.items():
        yield StreamFrames(f"a frame of {name}", _largest(client, question))
    for name in ("short questions", "questions without a host"):
        few = client.ask(1, [_QUESTIONS[name](n) for n in range(50)])
        yield StreamFrames(
            f"{FRAMES_AT_ONCE} frames of 50 {name}", few * FRAMES_AT_ONCE, FRAMES_AT_ONCE
        )
    one = client.ask(1, [_QUESTIONS["short questions"](0)])
    many = 20 * FRAMES_AT_ONCE
    yield StreamFrames(f"{many} frames of one question", one * many, many)
    yield StreamFrames(f"{many} frames of none", client.ask(1, []) * many, many)


def _largest(client: StreamClientConnection, question: Callable[[int], StreamQuestion]) -> bytes:
    """Return the largest allowed frame of these questions."""
    each = len(client.ask(1, [question(100) for _ in range(100)])) / 100
    count = int(FRAME_BYTES / each)
    while len(data := client.ask(1, [question(n) for n in range(count)])) > FRAME_BYTES + 4:
        count -= max(1, count // 100)
    return data
