"""Answers of the query process without a process, for tests of what asks it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import trio

from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.published import View
from authorizerd.daemon.queries.answers import Answering
from authorizerd.daemon.queries.change_authors import AuthorReader
from authorizerd.daemon.queries.client import OpenAnswer, Queries
from authorizerd.daemon.queries.past_state import PastReader
from authorizerd.daemon.queries.refusals import error_of
from authorizerd.daemon.queries.replica import ReplicatedState
from authorizerd.image.cluster import ClusterImage
from authorizerd.protocol.decisions.page_tokens import PageTokens
from authorizerd.protocol.framing import SIZE_BYTES
from authorizerd.protocol.queries import (
    Answer,
    QueryQuestion,
    Refusal,
    decode_question,
    decode_reply,
    encode_frame,
)
from tests.support.log_files import TIME_MS


class LocalQueries(Queries):
    """Answer by the state that a port decides by, at once.

    Args:
        secret: that of the query process.
    """

    def __init__(
        self,
        snapshot: View[AclSnapshot | None],
        image: View[ClusterImage],
        log_dir: Path = Path("none"),
        *,
        now_ms: Callable[[], int] = lambda: TIME_MS + 1,
        secret: bytes = bytes(32),
        authors: AuthorReader | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._image = image
        self._past = PastReader(log_dir, authors, now_ms=now_ms)
        self._tokens = PageTokens(secret)
        self.callers: list[str | None] = []
        self.on_ask: Callable[[], None] = lambda: None
        """Called while a question waits for its answer."""

    async def open(self, question: QueryQuestion, *, caller: str | None, offset: int) -> OpenAnswer:
        snapshot = self._snapshot.newest
        assert snapshot is not None, "a port that is not ready asks nothing"
        assert snapshot.offset == offset, "the state by which the port decides"
        self.callers.append(caller)
        await trio.lowlevel.checkpoint()
        self.on_ask()
        snapshot = self._snapshot.newest
        assert snapshot is not None, "tests withhold no state meanwhile"
        state = ReplicatedState(snapshot, self._image.newest)
        asked = decode_question(encode_frame(question)[SIZE_BYTES:])
        frames = Answering(state, self._past, self._tokens).answer(asked)
        reply = decode_reply(next(frames)[SIZE_BYTES:])
        if isinstance(reply, Refusal):
            raise error_of(reply)
        return LocalAnswer(reply, frames)


class LocalAnswer(OpenAnswer):
    """An answer, and what follows it."""

    def __init__(self, answer: Answer, following: Iterator[bytes]) -> None:
        self.answer = answer
        self._following = following

    async def next_lines(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return next(self._following, b"")

    def close(self) -> None: ...
