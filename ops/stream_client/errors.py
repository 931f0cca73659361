"""Why a client has no decision; whoever asked denies then."""

from __future__ import annotations


class StreamError(Exception):
    """Base of what keeps a client from a decision."""


class ConnectionEndedError(StreamError):
    """The daemon closed the connection, or sent what is no frame of the stream."""


class AnswerError(StreamError):
    """The daemon answered with an error; ``code`` is Kafka's, 801 while it is not ready."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the daemon answered with error {code}")
        self.code = code
