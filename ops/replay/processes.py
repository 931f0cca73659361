"""Do the tasks of a command in processes, one for each core.

**Invariant:** results come in the order of the tasks. If the command is killed, its processes end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import Final, TypeVar

from authorizerd.replay.errors import TrafficError

T = TypeVar("T")
R = TypeVar("R")

CORES: Final = len(os.sched_getaffinity(0))


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
    with ProcessPoolExecutor(count, context, _begin) as executor:
        try:
            yield from executor.map(work, tasks)
        except BrokenProcessPool as error:
            raise TrafficError(
                "a process that reads recorded traffic has ended, perhaps because the machine "
                "lacks memory: read fewer files at once, or use --engine spark"
            ) from error
        finally:
            executor.shutdown(cancel_futures=True)


def _begin() -> None:
    """Prepare a process."""
    import pyarrow

    # Arrow's own pool returns memory to the system so often that this takes a tenth of the time.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    end_with_parent()


def end_with_parent() -> None:
    """Let this process end as soon as the one that started it has ended, even by a kill."""
    parent = parent_process()
    assert parent is not None, "it runs in a child"

    def wait_for_end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait_for_end, daemon=True).start()
