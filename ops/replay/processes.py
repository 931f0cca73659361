"""Do the tasks of a command in processes, one for each core.

**Invariant:** results come in the order of the tasks. However the command ends, its processes end
at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Final, TypeVar

from authorizerd.replay.errors import TrafficError

T = TypeVar("T")
R = TypeVar("R")

CORES: Final = len(os.sched_getaffinity(0))

# Not SIGTERM, by which the pool itself ends its processes.
_SIGNALS: Final = (signal.SIGINT, signal.SIGHUP)


def do_tasks(work: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
    """Yield what ``work`` returns for each task; both are pickled. One task is done right here.

    Raises:
        TrafficError: a process ended, for lack of memory for example.
    """
    if len(tasks) <= 1 or CORES == 1:
        yield from map(work, tasks)
        return
    count = min(CORES, len(tasks))
    # Not forked: threads of Arrow would be missing in the child, while their locks are held.
    context = get_context("spawn")
    end, ours = context.Pipe(duplex=False)
    with ProcessPoolExecutor(count, context, _begin, (end,)) as executor, ours:
        # The processes inherit the mask: a signal of the terminal reaches only the command.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            results = executor.map(work, tasks)
            # The executor watches the processes that it knew when it last woke. This wakes it once
            # all have started; otherwise, it could wait for ever for the last one, if that is lost.
            executor.submit(int)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            yield from results
            executor.shutdown()
        except BrokenProcessPool as error:
            raise TrafficError(
                "a process that reads recorded traffic has ended, perhaps because the machine "
                "lacks memory: read fewer files at once, or use --engine spark"
            ) from error


def _begin(end: Connection) -> None:
    """Prepare a process, which ends once the command closes its side of a pipe."""
    import pyarrow

    # Arrow's own pool returns memory to the system so often that this takes a tenth of the time.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    end_with(end)


def end_with_parent() -> None:
    """Let this process end as soon as the one that started it has ended, even by a kill."""
    parent = parent_process()
    assert parent is not None, "only called in a child"
    end_with(parent.sentinel)


def end_with(sign: Connection | int) -> None:
    """Let this process end once ``sign`` can be read."""

    def wait_for_end() -> None:
        wait([sign])
        os._exit(1)

    threading.Thread(target=wait_for_end, daemon=True).start()
