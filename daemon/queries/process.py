"""The query process: one loop without threads, so that it may fork.

It receives the daemon's changes, like a worker, and questions from the decision ports. Each
question is answered by a child (``children``). The loop itself does only short work.

**Invariant:** a question is answered by a state that includes the offset that its caller has seen.
The process ends with the daemon. A caller that disconnects frees its slot.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

from authorizerd.acl.release_in_force import UNKNOWN_RELEASE
from authorizerd.config.bounds import RECEIVE_BYTES
from authorizerd.config.configuration import parse_values
from authorizerd.daemon.errors import BusyError
from authorizerd.daemon.logging.setup import log_without_thread
from authorizerd.daemon.queries.admission import LISTINGS_MAX, WAITING_MAX, AdmissionControl
from authorizerd.daemon.queries.answers import Answering
from authorizerd.daemon.queries.change_authors import AuthorReader
from authorizerd.daemon.queries.children import (
    ENDED,
    EndCounts,
    Question,
    Work,
    private_bytes,
)
from authorizerd.daemon.queries.handover import receive_header
from authorizerd.daemon.queries.past_state import PastReader
from authorizerd.daemon.queries.refusals import refuse
from authorizerd.daemon.queries.replica import Replica, ReplicatedState
from authorizerd.daemon.releases import new_judge
from authorizerd.protocol.decisions.page_tokens import PageTokens
from authorizerd.protocol.queries import (
    encode_frame,
)
from authorizerd.protocol.worker_feed import (
    Begin,
    Done,
    Drain,
    Loaded,
    Order,
    Report,
    TakeChanges,
    encode_message,
    order_reader,
)

WATCH_SECONDS: Final = 0.1
"""How often the memory of children is measured."""
TOO_MANY: Final = (
    f"too many questions: {WAITING_MAX} already wait, {LISTINGS_MAX} listings are in progress, or "
    "half of either are this caller's; retry later, or ask another daemon"
)
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SOURCE: Final = "the daemon's configuration"

NewWork = Callable[[ReplicatedState, PastReader, PageTokens], Work]
"""Returns a function that answers questions by a state."""


def new_work(state: ReplicatedState, past: PastReader, tokens: PageTokens) -> Work:
    """Return a function that answers questions by ``state``."""
    return Answering(state, past, tokens).answer


_logger = logging.getLogger("authorizerd")


def run_query_process(
    feed_descriptor: int, questions_descriptor: int, new_work: NewWork = new_work
) -> None:
    """Run the query process until the daemon ends.

    Args:
        feed_descriptor: this process's end of the feed, a socket.
        questions_descriptor: the socket on which the decision ports send questions.
    """
    for number in _SIGNALS:  # a terminal sends them to all processes; the daemon ends this one
        signal.signal(number, signal.SIG_IGN)
    # Objects are frozen before each fork. The loop itself creates few reference cycles.
    gc.disable()
    with (
        socket.socket(fileno=feed_descriptor) as feed,
        socket.socket(fileno=questions_descriptor) as questions,
    ):
        QueryProcess(feed, questions, new_work).run()


class QueryProcess:
    """The loop, and its open questions."""

    def __init__(self, feed: socket.socket, questions: socket.socket, new_work: NewWork) -> None:
        self._feed: Final = feed
        self._questions: Final = questions
        self._new_work: Final = new_work
        self._orders: Final = order_reader()
        self._replica = Replica(lambda image: UNKNOWN_RELEASE)
        self._tokens = PageTokens(b"")
        self._past: PastReader
        self._admission: Final[AdmissionControl[Question]] = AdmissionControl()
        self._poll: Final = select.poll()
        self._handlers: Final[dict[int, Callable[[], bool]]] = {}
        self._ended: Final = EndCounts()

    def run(self) -> None:
        """Serve until the daemon ends, or drains this process.

        Raises:
            DecodeError, ChangeError: the feed is invalid.
        """
        self._watch(self._feed.fileno(), select.POLLIN, self._receive_orders)
        goes_on = True
        while goes_on:
            wait_ms = WATCH_SECONDS * 1000 if self._admission.running else None
            for descriptor, _ in self._poll.poll(wait_ms):
                # An earlier handler may have unregistered this one's descriptor.
                handler = self._handlers.get(descriptor)
                goes_on = goes_on and (handler is None or handler())
            self._check_memory()
            self._start_next()

    def _watch(self, descriptor: int, events: int, handler: Callable[[], bool]) -> None:
        """Register ``handler`` for these events; it returns False to end the loop."""
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, events)

    def _unwatch(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    # The daemon's orders.

    def _receive_orders(self) -> bool:
        try:
            data = self._feed.recv(RECEIVE_BYTES)
        except ConnectionResetError:
            return False
        if not data:
            return False
        self._orders.receive_data(data)
        while (order := self._orders.next_message()) is not None:
            is_done = self._carry_out(order)
            if is_done:
                counters = self._counters() if isinstance(order, Report) else None
                done = Done(order.number, self._replica.offset, counters)
                with suppress(BrokenPipeError):  # the next read reports the daemon's end
                    self._feed.sendall(encode_message(done))
            if isinstance(order, Drain):
                return False
        return True

    def _counters(self) -> dict[str, int]:
        return {f"{ENDED}/{reason}": count for reason, count in asdict(self._ended).items()}

    def _carry_out(self, order: Order) -> bool:
        """Carry out an order; return True once it is done."""
        match order:
            case Begin():
                configuration = parse_values(order.configuration, source=_SOURCE)
                log_without_thread(configuration.log_format)
                self._replica = Replica(new_judge(configuration))
                self._tokens = PageTokens(order.page_secret)
                self._past = PastReader(
                    Path(configuration.metadata_log_dir), AuthorReader(configuration)
                )
                self._watch(self._questions.fileno(), select.POLLIN, self._receive_questions)
            case TakeChanges():
                self._replica.take_changes(order)
                return order.is_end
            case Loaded():
                self._replica.finish_load(order.offset)
                gc.freeze()
            case _:  # settings arrive with each question; the ports check everything else
                pass
        return True

    # The questions.

    def _receive_questions(self) -> bool:
        try:
            while True:
                received = receive_header(self._questions)
                if received is not None:
                    self._receive_question(Question(*received))
        except BlockingIOError:
            return True
        except EOFError:  # the daemon has ended
            return False

    def _receive_question(self, question: Question) -> None:
        if not self._admission.admit(question):
            self._refuse(question, TOO_MANY)
            question.close()
            return
        # The question itself stays in the socket: the child reads it.
        self._watch(question.link.fileno(), select.POLLRDHUP, partial(self._leave, question))

    def _leave(self, question: Question) -> bool:
        """Forget a question: its caller has disconnected."""
        self._unwatch(question.link.fileno())
        self._ended.time += question.is_late
        if question.child:
            question.kill()  # its end frees the slot
        else:
            self._admission.leave(question)
            question.close()
        return True

    def _refuse(self, question: Question, reason: str) -> None:
        with suppress(OSError):
            question.link.send(encode_frame(refuse(BusyError(reason))), socket.MSG_DONTWAIT)

    # The children.

    def _start_next(self) -> None:
        while (question := self._admission.begin_next(self._replica.offset)) is not None:
            gc.freeze()  # otherwise a collection in the child would copy all pages of the state
            try:
                state = self._replica.find(question.offset)
                work = self._new_work(state, self._past, self._tokens)
                ended = question.start(work, self._past.encode_notes)
            except OSError as error:
                reason = f"a process to answer in cannot be started: {error.strerror}"
                self._refuse(question, reason)
                self._forget(question)
                continue
            notes = bytearray()
            self._watch(ended, select.POLLIN, partial(self._read_notes, question, ended, notes))

    def _read_notes(self, question: Question, ended: int, notes: bytearray) -> bool:
        data = os.read(ended, RECEIVE_BYTES)
        notes += data
        if not data:
            self._reap(question, ended)
            self._past.adopt_notes(bytes(notes))
        return True

    def _reap(self, question: Question, ended: int) -> None:
        """Note that a child has ended."""
        self._unwatch(ended)
        os.close(ended)
        code = question.wait()
        # If the descriptor is closed, the caller disconnected, and the child was killed for that
        # reason.
        is_wanted = question.link.fileno() in self._handlers
        if code and is_wanted:
            self._ended.memory += question.is_greedy
            self._ended.failure += not question.is_greedy
            _logger.error("a question has ended without an answer: code %d", code)
        if question.is_listing and is_wanted and not code:
            self._admission.finish(question)  # it counts until its caller closes the socket
        else:
            self._forget(question)

    def _forget(self, question: Question) -> None:
        self._unwatch(question.link.fileno())
        self._admission.leave(question)
        question.close()

    def _check_memory(self) -> None:
        for question in self._admission.running:
            if private_bytes(question.child) > question.bytes_max:
                _logger.error("a question takes too much memory, so it is not answered")
                question.is_greedy = True
                question.kill()  # send no refusal: it might end up inside the answer
