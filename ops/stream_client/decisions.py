"""What a frame of questions is answered, for people."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from authorizerd.protocol.decisions.stream import ALLOWED, Answer, Greeting, StreamQuestion
from ops.stream_client.errors import AnswerError, StreamError

FRAME_BYTES_MAX = 16 * 1024 * 1024


class Decisions(msgspec.Struct, frozen=True):
    """``allowed`` has one entry a question, in order, True only where the daemon said so.

    ``codes`` are its bytes: 0 denied, 1 allowed, 2 not a valid question, 3 not ready.
    """

    offset: int
    codes: bytes

    @property
    def allowed(self) -> list[bool]:
        return [code == ALLOWED for code in self.codes]


def greeted(greeting: Greeting) -> int:
    """Return the log offset that the daemon is at.

    Raises:
        AnswerError: it does not want this client.
    """
    if greeting.error_code:
        raise AnswerError(greeting.error_code)
    return greeting.offset


def decided(answer: Answer, questions: Sequence[StreamQuestion]) -> Decisions:
    """Return what ``answer`` says to ``questions``.

    Raises:
        AnswerError: it is an error.
        StreamError: it is not one decision a question.
    """
    if answer.error_code:
        raise AnswerError(answer.error_code)
    if len(answer.decisions) != len(questions):
        raise StreamError(f"{len(answer.decisions)} decisions on {len(questions)} questions")
    return Decisions(answer.offset, answer.decisions)
