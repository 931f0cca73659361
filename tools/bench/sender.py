"""Send requests at a fixed rate, regardless of the server's answers, and measure latencies.

    python -m tools.bench.sender PLAN

Each request has a fixed due time, and **its latency counts from then**, so a stall also counts for
the requests that were due during it. *Lag* is how late a request was sent on a free connection: the
sender's own delay. With a rate of 0, each connection sends its next request when the last one is
answered, which measures a rate. Latencies are then kept only for one request in flight, since those
of several would leave out what a stall delays. ``PLAN`` is a file in msgpack.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import ssl
import sys
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, TypeVar

import msgspec

from tools.bench.figures import MeasurementError, percentile
from tools.bench.protocols import ANSWERED, HTTP, reader_of
from tools.processes import capture_json

T = TypeVar("T")

NUMBER: Final = b"##########"
"""The sender replaces this with a different number in each request."""
_RECEIVE_BYTES: Final = 256 * 1024
ANSWER_SECONDS: Final = 60.0
"""Time limit for an answer."""
_RETRY_NS: Final = 50_000_000
"""How long a connection pauses after a refusal. Requests due meanwhile count as refused."""
_RESTING, _LOST = "waiting after a refusal", "no connection"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A load. The first ``skipped_seconds`` are a warm-up and are not counted.

    ``rate`` is that of all connections together; 0 keeps ``in_flight`` requests on each connection.
    ``opening`` is sent once on each connection. With ``is_fresh``, each request has a new
    connection; with ``resumes``, it resumes the TLS session of an earlier one. Unless
    ``may_refuse``, any outcome other than an answer ends the load.
    """

    address: str
    requests: list[bytes]
    seconds: float
    rate: float = 0.0
    skipped_seconds: float = 0.0
    protocol: str = HTTP
    connections: int = 16
    in_flight: int = 1
    first: int = 0
    opening: bytes = b""
    ca_file: str = ""
    is_fresh: bool = False
    resumes: bool = False
    may_refuse: bool = False
    niceness: int = 0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a load; ``asked`` also counts the warm-up. ``times_ms`` are latencies."""

    asked: int
    outcomes: dict[str, int]
    per_second: float
    times_ms: list[float]
    lag_p99_ms: float

    @property
    def answered(self) -> int:
        """The number of answers."""
        return self.outcomes.get(ANSWERED, 0)

    @property
    def refused(self) -> int:
        """The number of all other outcomes."""
        return sum(self.outcomes.values()) - self.answered


def send(plan: Plan) -> Report:
    """Run a load in another process; raise ProcessError if it failed or nothing was answered."""
    return run_plan("sender", plan, Report, plan.seconds + 2 * ANSWER_SECONDS)


def run_plan(module: str, plan: msgspec.Struct, kind: type[T], timeout_seconds: float) -> T:
    """Run a module of the bench, with a plan in msgpack, in another process."""
    with NamedTemporaryFile(prefix="bench-", suffix=".plan") as file:
        file.write(msgspec.msgpack.encode(plan))
        file.flush()
        command = [sys.executable, "-m", f"tools.bench.{module}", file.name]
        return capture_json(command, kind, timeout_seconds=timeout_seconds)


def send_together(*plans: Plan) -> list[Report]:
    """Run several loads at the same time, each in its own process."""
    with ThreadPoolExecutor(len(plans)) as threads:
        return [*threads.map(send, plans)]


class Connection:
    """A connection that blocks only while it opens. Sends as much of ``sending`` as it can."""

    def __init__(
        self, address: str, protocol: str, sending: bytes | memoryview,
        tls: ssl.SSLContext | None = None, connect_seconds: float = 10.0,
        session: ssl.SSLSession | None = None,
    ) -> None:  # fmt: skip
        host, _, port = address.rpartition(":")
        plain = socket.create_connection((host, int(port)), connect_seconds)
        # Nagle's algorithm would hold a request back and add to its latency.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_secured, self.is_blocked, self.sending = tls is None, False, sending
        self.has_session = session is not None
        self.socket = plain
        if tls is not None:
            self.socket = tls.wrap_socket(
                plain, server_hostname=host, do_handshake_on_connect=False, session=session
            )
        self.socket.setblocking(False)
        self.reader = reader_of(protocol)

    def pump(self) -> None:
        """Continue the handshake, or send what the socket accepts."""
        try:
            if not self.is_secured:
                assert isinstance(self.socket, ssl.SSLSocket)
                self.socket.do_handshake()
                self.is_secured = True
            while self.sending:
                self.sending = self.sending[self.socket.send(self.sending) :]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return


class _Slot:
    """One of the load's connections, which may be replaced, and the due times of its requests."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.waiting: deque[int] = deque()
        self.asked: deque[int] = deque()
        self.rests_until_ns = 0


class _Sender:
    def __init__(self, plan: Plan) -> None:
        self._plan: Final = plan
        self._tls = ssl.create_default_context(cafile=plan.ca_file) if plan.ca_file else None
        self._poll: Final = select.epoll()
        self._slots: Final[dict[int, _Slot]] = {}
        self._is_numbered: Final = NUMBER in plan.requests[0]
        self._is_timed: Final = bool(plan.rate) or plan.connections * plan.in_flight == 1
        self._outcomes: Final[Counter[str]] = Counter()
        self._times_ns: Final[list[int]] = []
        self._lags_ns: Final[list[int]] = [0]
        self._asked = self._unsettled = 0
        self._begun_ns = self._counted_from_ns = 0
        self._session: ssl.SSLSession | None = None

    def run(self) -> Report:
        plan = self._plan
        slots = [_Slot() for _ in range(plan.connections)]
        for slot in () if plan.is_fresh else slots:
            self._connect(slot)
        self._begun_ns = time.perf_counter_ns()
        self._counted_from_ns = self._begun_ns + int(plan.skipped_seconds * 1e9)
        if plan.rate:
            self._send_on_time(slots)
            counted_s = plan.seconds - plan.skipped_seconds
        else:
            self._send_again_and_again(slots)
            counted_s = (time.perf_counter_ns() - self._counted_from_ns) / 1e9
        if not self._outcomes[ANSWERED] and not (plan.may_refuse and self._outcomes.total()):
            raise MeasurementError(f"{plan.address} answered nothing: {dict(self._outcomes)}")
        return Report(
            asked=self._asked,
            outcomes={name: count for name, count in self._outcomes.items() if count},
            per_second=self._outcomes[ANSWERED] / counted_s,
            times_ms=[round(each / 1e6, 4) for each in self._times_ns],
            lag_p99_ms=percentile(self._lags_ns, 99) / 1e6,
        )

    def close(self) -> None:
        """Close all connections."""
        for slot in [*self._slots.values()]:
            self._close(slot)
        self._poll.close()

    def _send_on_time(self, slots: list[_Slot]) -> None:
        plan = self._plan
        count, interval_ns = max(1, int(plan.rate * plan.seconds)), 1e9 / plan.rate
        due_ns, due = self._begun_ns, 0
        while due < count or self._unsettled:
            now_ns = time.perf_counter_ns()
            while due < count and due_ns <= now_ns:
                slot = _Slot() if plan.is_fresh else slots[due % len(slots)]
                if len(slot.asked) < plan.in_flight:
                    self._lags_ns.append(now_ns - due_ns)
                self._begin(slot, [due_ns])
                due += 1
                due_ns = self._begun_ns + int(due * interval_ns)
            if due < count:
                self._receive((due_ns - time.perf_counter_ns()) / 1e9)
            elif self._unsettled:
                self._receive(None)

    def _send_again_and_again(self, slots: list[_Slot]) -> None:
        plan, end_ns = self._plan, self._begun_ns + int(self._plan.seconds * 1e9)
        while (now_ns := time.perf_counter_ns()) < end_ns or not self._outcomes.total():
            for slot in slots:
                missing = plan.in_flight - len(slot.asked) - len(slot.waiting)
                if missing and now_ns >= slot.rests_until_ns:
                    self._begin(slot, [now_ns] * missing)
            self._receive(_RETRY_NS / 1e9 if plan.may_refuse else None)

    def _begin(self, slot: _Slot, due_ns: list[int]) -> None:
        """Queue requests that are due on a connection; send them if it is free."""
        self._unsettled += len(due_ns)
        slot.waiting.extend(due_ns)
        if time.perf_counter_ns() < slot.rests_until_ns:
            self._refuse(slot, _RESTING)
        elif slot.connection is None and not self._connect(slot):
            self._refuse(slot, _LOST)
        else:
            self._ask(slot)

    def _connect(self, slot: _Slot) -> bool:
        try:
            plan = self._plan
            slot.connection = Connection(
                plan.address, plan.protocol, plan.opening, self._tls, session=self._session
            )
        except OSError:
            if self._plan.may_refuse:
                return False
            raise
        self._slots[slot.connection.socket.fileno()] = slot
        self._poll.register(slot.connection.socket, select.EPOLLIN)
        slot.connection.pump()
        return True

    def _ask(self, slot: _Slot) -> None:
        """Send the requests that are due, up to the maximum in flight."""
        plan, connection, requests = self._plan, slot.connection, []
        while slot.waiting and len(slot.asked) < plan.in_flight:
            slot.asked.append(slot.waiting.popleft())
            request = plan.requests[(plan.first + self._asked) % len(plan.requests)]
            if self._is_numbered:
                request = request.replace(NUMBER, b"%010d" % (plan.first + self._asked))
            requests.append(request)
            self._asked += 1
        if requests and connection is not None:
            connection.sending = bytes(connection.sending) + b"".join(requests)
            try:
                self._pump(connection)
            except OSError as error:
                self._lose(slot, error)

    def _pump(self, connection: Connection) -> None:
        connection.pump()
        # Also wake up a connection that could not send everything once it can continue.
        is_blocked = bool(connection.sending) and connection.is_secured
        if is_blocked != connection.is_blocked:
            connection.is_blocked = is_blocked
            events = select.EPOLLIN | (select.EPOLLOUT if is_blocked else 0)
            self._poll.modify(connection.socket, events)

    def _receive(self, seconds: float | None) -> None:
        """Wait for answers, at most ``seconds``, and settle them."""
        limit = ANSWER_SECONDS if seconds is None else max(0.0, seconds)
        # epoll itself only waits for whole milliseconds.
        ready, _, _ = select.select([self._poll.fileno()], [], [], limit)
        if not ready and seconds is None:
            raise MeasurementError(f"{self._plan.address}: no answer in {limit:.0f} s")
        for descriptor, events in self._poll.poll(0) if ready else ():
            slot = self._slots.get(descriptor)
            if slot is None or (connection := slot.connection) is None:
                continue
            try:
                if events & select.EPOLLOUT or not connection.is_secured:
                    self._pump(connection)
                else:
                    self._read(slot, connection)
            except OSError as error:
                self._lose(slot, error)

    def _read(self, slot: _Slot, connection: Connection) -> None:
        try:
            data = connection.socket.recv(_RECEIVE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):  # part of a record, or a session ticket
            return
        if not data:
            raise ConnectionResetError("the server closed a connection")
        while data:
            for found in connection.reader.feed(data):
                if isinstance(found, bytes):
                    connection.sending = bytes(connection.sending) + found
                    self._pump(connection)
                else:
                    self._settle(slot, found)
            is_tls = isinstance(connection.socket, ssl.SSLSocket) and connection.socket.pending()
            data = connection.socket.recv(_RECEIVE_BYTES) if is_tls else b""
        if slot.connection is connection and time.perf_counter_ns() >= slot.rests_until_ns:
            self._ask(slot)
        elif slot.waiting:
            self._refuse(slot, _RESTING)

    def _settle(self, slot: _Slot, outcome: str) -> None:
        """Count the outcome of the oldest request in flight."""
        if outcome != ANSWERED and not self._plan.may_refuse:
            raise MeasurementError(f"{self._plan.address} answered {outcome}")
        if not slot.asked:  # a refused connection, which had no request
            return
        due_ns, now_ns = slot.asked.popleft(), time.perf_counter_ns()
        self._unsettled -= 1
        if due_ns >= self._counted_from_ns:
            self._outcomes[outcome] += 1
            if outcome == ANSWERED and self._is_timed:
                self._times_ns.append(now_ns - due_ns)
        if outcome not in (ANSWERED, _RESTING):
            slot.rests_until_ns = now_ns + _RETRY_NS
        if self._plan.is_fresh and not slot.asked:
            if self._plan.resumes and slot.connection is not None:
                self._keep_session(slot.connection)
            self._close(slot)

    def _keep_session(self, connection: Connection) -> None:
        """Keep the first session for all later connections, which must resume it."""
        secured = connection.socket
        assert isinstance(secured, ssl.SSLSocket)
        if connection.has_session and not secured.session_reused:
            raise MeasurementError(f"{self._plan.address} did not resume a session")
        self._session = self._session or secured.session

    def _refuse(self, slot: _Slot, outcome: str) -> None:
        slot.asked.extend(slot.waiting)
        slot.waiting.clear()
        while slot.asked:
            self._settle(slot, outcome)

    def _lose(self, slot: _Slot, error: OSError) -> None:
        if not self._plan.may_refuse:
            raise MeasurementError(f"{self._plan.address}: {error!r}") from error
        self._close(slot)
        self._refuse(slot, _LOST)

    def _close(self, slot: _Slot) -> None:
        if slot.connection is not None:
            # Before closing: afterwards the socket has no descriptor.
            del self._slots[slot.connection.socket.fileno()]
            self._poll.unregister(slot.connection.socket)
            slot.connection.socket.close()
            slot.connection = None


def run_load(plan: Plan) -> Report:
    """Run a load in this process."""
    with closing(_Sender(plan)) as sender:
        return sender.run()


if __name__ == "__main__":
    planned = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
    os.nice(planned.niceness)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sys.stdout.buffer.write(msgspec.json.encode(run_load(planned)) + b"\n")
