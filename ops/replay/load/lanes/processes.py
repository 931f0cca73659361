"""Run the lanes in processes of this machine, one for each.

**Invariant:** a lane's process ends with this one, however that ends. Signals reach only this
process, which ends the lanes.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Final

import msgspec

from authorizerd.replay.errors import LoadError, SendingError
from authorizerd.replay.load.lanes.driving import run_lane
from authorizerd.replay.load.lanes.tally import LaneResult
from authorizerd.replay.load.plan.pacing import Schedule
from authorizerd.replay.plans import LoadPlan
from authorizerd.replay.processes import end_with_parent

if TYPE_CHECKING:
    import pyarrow as pa

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LaneProcesses:
    """The processes of all lanes; they load their modules while the load is planned."""

    def __init__(self, plan: LoadPlan) -> None:
        context = get_context("spawn")
        self._plan = plan
        self._lanes: list[tuple[Any, Connection]] = []
        # The processes inherit the mask, so they never see these signals.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            for lane in range(plan.lanes):
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(plan, lane, theirs), daemon=True)
                process.start()
                theirs.close()
                self._lanes.append((process, ours))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def run(self, schedule: Schedule, questions: Iterable[pa.RecordBatch]) -> list[LaneResult]:
        """Give each lane its questions, let all of them send, and return the results. Blocks.

        Raises:
            LoadError: a process has ended before the start.
            SendingError: a process has ended after it.
        """
        import pyarrow.compute as pc

        try:
            self._send(schedule)
            for batch in questions:
                for lane, (_, pipe) in enumerate(self._lanes):
                    pipe.send(batch.filter(pc.equal(batch.column("lane"), lane)))
            self._send(None)
            if not self._plan.dry_run:
                self._send(self._receive())
        except (EOFError, OSError) as error:
            raise LoadError(self._describe_end()) from error
        try:
            return [msgspec.msgpack.decode(each, type=LaneResult) for each in self._receive()]
        except (EOFError, OSError) as error:
            raise SendingError(self._describe_end()) from error

    def close(self) -> None:
        """End the processes."""
        for process, pipe in self._lanes:
            process.kill()
            process.join()
            pipe.close()

    def _send(self, value: object) -> None:
        for _, pipe in self._lanes:
            pipe.send(value)

    def _receive(self) -> list[Any]:
        """Return what each process has sent; notice at once if one has ended."""
        received: dict[int, Any] = {}
        pipes = {pipe: lane for lane, (_, pipe) in enumerate(self._lanes)}
        while pipes:
            for pipe in wait(list(pipes)):
                assert isinstance(pipe, Connection), "only these are waited for"
                received[pipes.pop(pipe)] = pipe.recv()
        return [received[lane] for lane in sorted(received)]

    def _describe_end(self) -> str:
        codes = []
        for process, _ in self._lanes:
            process.join(1)
            codes.append(process.exitcode)
        return f"the process of a lane has ended: exit codes {codes} (None: still running)"


def _work(plan: LoadPlan, lane: int, pipe: Connection) -> None:
    end_with_parent()
    schedule = pipe.recv()

    def gather(text: str) -> list[str]:
        pipe.send(text)
        texts: list[str] = pipe.recv()
        return texts

    result = run_lane(plan, schedule, lane, iter(pipe.recv, None), gather)
    pipe.send(msgspec.msgpack.encode(result))
