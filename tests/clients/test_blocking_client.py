"""Threads that share a client, and interrupts."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from authorizerd_client import ClosedError, Question, TimedOutError, blocking_runtime
from authorizerd_client.blocking import Client
from tests.support.daemon_process import DaemonProcess, running

TOKEN = "proxy.secret"


def about(number: int) -> Question:
    return Question("User:alice", None, "READ", "TOPIC", f"topic-{number}")


def test_threads_take_turns(token_daemon: DaemonProcess) -> None:
    """Every thread gets its own answers."""
    with (
        Client(token_daemon.ready["decision_stream"], token=TOKEN, timeout_seconds=20) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        decided = list(threads.map(lambda number: client.decide(about(number)), range(400)))
    assert decided == [number % 2 == 0 for number in range(400)]


def test_thread_waits_for_its_turn_no_longer_than_its_limit(tmp_path: Path, log_dir: Path) -> None:
    """One thread waits for an offset; another's limit ends first. ``close`` wakes the first."""
    with running(tmp_path, log_dir) as daemon:
        client = Client(daemon.ready["decision_stream"])
        assert client.decide(about(0))
        errors: list[Exception] = []

        def wait_for_offset() -> None:
            try:
                client.decide(about(0), min_offset=10**9, timeout_seconds=20)
            except ClosedError as error:
                errors.append(error)

        thread = threading.Thread(target=wait_for_offset)
        thread.start()
        stream = 'authorizerd_stream_requests_total{listener="decision_stream"}'
        while daemon.metric(stream) < 3:
            pass
        with pytest.raises(TimedOutError, match="other threads"):
            client.decide(about(0), timeout_seconds=0.05)
        client.close()
        thread.join(10)
        assert len(errors) == 1
        with pytest.raises(ClosedError):
            client.connect()


def test_interrupted_call_loses_no_later_answer(
    token_daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt comes when the answer is received, but not yet read."""
    receive = blocking_runtime._Stream.receive

    async def interrupt(stream: blocking_runtime._Stream) -> bytes:
        await receive(stream)
        raise KeyboardInterrupt

    with Client(token_daemon.ready["decision_stream"], token=TOKEN) as client:
        client.connect()
        with monkeypatch.context() as interrupted:
            interrupted.setattr(blocking_runtime._Stream, "receive", interrupt)
            with pytest.raises(KeyboardInterrupt):
                client.decide(about(1))
        assert [client.decide(about(number)) for number in range(4)] == [True, False] * 2
