"""A query process whose children do what the asked principal's name says, for tests.

python -m tests.daemon.queries.odd_process --feed-fd FEED --questions-fd QUESTIONS
"""

import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from authorizerd.config.bounds import SEND_BYTES
from authorizerd.daemon.queries import children
from authorizerd.daemon.queries.answers import Answering
from authorizerd.daemon.queries.children import Work
from authorizerd.daemon.queries.past_state import PastReader
from authorizerd.daemon.queries.process import run_query_process
from authorizerd.daemon.queries.replica import ReplicatedState
from authorizerd.protocol.decisions.page_tokens import PageTokens
from authorizerd.protocol.queries import Answer, ExplainQuestion, ListingQuestion

OWN_BYTES_MAX = 32 * 1024 * 1024


class OddAnswering(Answering):
    """Answer usual questions as usual."""

    def _explain(self, question: ExplainQuestion) -> Answer:
        match question.question.principal:
            case "User:sleep":
                Path(question.question.resource_name).write_text(str(os.getpid()))
                time.sleep(60)
            case "User:die":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "User:fail":
                raise AssertionError("a defect")
            case "User:memory":
                held = []
                while True:
                    held.append(bytes(1024 * 1024))
            case "User:descriptors":
                return Answer((_list_descriptors().encode(),), (True,))
        return super()._explain(question)


class EndlessAnswering(Answering):
    """Answer listings without end."""

    def _list(self, question: ListingQuestion) -> tuple[Answer, Iterable[bytes]]:
        log_dir = Path(self._past._log_dir)
        (log_dir / "pid").write_text(str(os.getpid()))
        return Answer((), (True,)), iter(lambda: os.urandom(SEND_BYTES), b"")


def _list_descriptors() -> str:
    found = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return " ".join(
        os.readlink(path).split(":")[0] for path in found if path.exists() and int(path.name) > 2
    )


def new_work(state: ReplicatedState, past: PastReader, tokens: PageTokens) -> Work:
    """Return what answers questions by ``state``."""
    kind = EndlessAnswering if "--endless" in sys.argv else OddAnswering
    return kind(state, past, tokens).answer


if __name__ == "__main__":
    children.OWN_BYTES_MAX = OWN_BYTES_MAX  # type: ignore[misc] # a smaller one
    if "--greedy" in sys.argv:  # each child takes more than allowed
        children.OWN_BYTES_MAX = -(2**40)  # type: ignore[misc]
    if "--short" in sys.argv:
        children.LINES_BYTES_MAX = 1024 * 1024  # type: ignore[misc]
    run_query_process(int(sys.argv[2]), int(sys.argv[4]), new_work)
