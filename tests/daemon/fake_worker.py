"""Workers inside the test's process: the real source and applier, but no other process.

**Invariant:** a held fake reads nothing from its feed, like a stopped process; a killed fake ends
at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio
from trio.testing import memory_stream_pair

from authorizerd.actors.record_applier import Message, RecordApplier
from authorizerd.daemon.workers.feed_source import FeedSource, WorkerActions
from authorizerd.daemon.workers.link import WorkerProcess
from authorizerd.protocol.worker_feed import Files


class HeldStream(trio.abc.Stream):
    """A stream that delivers nothing while it is held."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.released = trio.Event()
        self.released.set()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = await self._stream.receive_some(max_bytes)
        await self.released.wait()
        return bytes(data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


class FakeWorker(WorkerActions, WorkerProcess):
    """A worker and its process in one.

    Args:
        on_listen: called when it begins to listen.
    """

    def __init__(
        self, pid: int, stream: trio.abc.Stream, on_listen: Callable[[FakeWorker], None]
    ) -> None:
        self._pid = pid
        self.stream = HeldStream(stream)
        self._on_listen = on_listen
        self._scope = trio.CancelScope()
        self.ended = trio.Event()
        feed, inbox = trio.open_memory_channel[Message](4)
        self._feed = feed
        self._applier = RecordApplier(
            inbox,
            on_misfit=lambda _: None,
            clock=trio.current_time,  # as of a followed log
        )
        self.settings: Mapping[str, str] = {}
        self.files: list[Files] = []
        self.is_listening = False
        self.is_drained = False
        self.count = 0
        self.refusing = 0

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def offset(self) -> int:
        newest = self._applier.snapshot.newest
        return -1 if newest is None else newest.offset

    @property
    def acl_count(self) -> int:
        newest = self._applier.snapshot.newest
        return -1 if newest is None else len(newest.acls)

    @property
    def not_ready_reason(self) -> str:
        return self._applier.not_ready_reason

    def hold(self) -> None:
        self.stream.released = trio.Event()

    def release(self) -> None:
        self.stream.released.set()

    def kill(self) -> None:
        self._scope.cancel()

    async def wait(self) -> int:
        await self.ended.wait()
        return 0

    async def run(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    source = FeedSource(self.stream)
                    if await source.begin() is not None:
                        nursery.start_soon(self._applier.run)
                        await source.run(self._feed, self._applier.applied, self)
                    nursery.cancel_scope.cancel()
        finally:
            self.is_listening = False
            with trio.CancelScope(shield=True):
                await self.stream.aclose()
            self.ended.set()

    def apply_settings(self, texts: Mapping[str, str]) -> None:
        self.settings = dict(texts)

    async def apply_files(self, files: Files) -> None:
        self.files.append(files)

    async def listen(self) -> None:
        self.is_listening = True
        self._on_listen(self)

    async def drain(self) -> None:
        self.is_drained = True

    def counters(self) -> dict[str, int]:
        return {
            "decisions/Stream/allowed": self.count,
            "audit/refusing": self.refusing,
            "decision_http/connections_open": 3,
            "audit/written": 1,
        }


class FakeProcesses:
    """Start fake workers; ``workers`` holds all of them, in order."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.workers: list[FakeWorker] = []
        self.on_start: Callable[[FakeWorker], None] = lambda worker: None
        self.on_listen: Callable[[FakeWorker], None] = lambda worker: None
        self.failures = 0

    @property
    def living(self) -> list[FakeWorker]:
        return [worker for worker in self.workers if not worker.ended.is_set()]

    async def spawn(self) -> tuple[trio.abc.Stream, FakeWorker]:
        if self.failures:
            self.failures -= 1
            raise OSError(11, "Resource temporarily unavailable")
        ours, theirs = memory_stream_pair()
        worker = FakeWorker(len(self.workers) + 1, theirs, lambda each: self.on_listen(each))
        self.workers.append(worker)
        self.on_start(worker)
        self._nursery.start_soon(worker.run)
        return ours, worker
