"""Samples of what each process holds: memory, descriptors, threads, and what /metrics says."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.soak.flatness import Limit
from tests.soak.sites import Site
from tools.processes import read_memory

MIB: Final = 1 << 20
LIMITS: Final[Mapping[str, Limit]] = {
    "memory": Limit(3 * MIB, 0.03),
    "descriptors": Limit(4),
    "threads": Limit(2),
    "tasks": Limit(6),
    "queued": Limit(4),
    "connections": Limit(4),
}
"""How much each quantity may grow over the time that is judged."""
_QUEUES: Final = ("authorizerd_purgatory_size", "authorizerd_updates_waiting")
_CONNECTIONS: Final = tuple(
    f"authorizerd_{kind}_connections{{" for kind in ("http", "kafka", "stream")
)

Sampled = dict[str, float]
"""Values by the quantities of ``LIMITS``, and others that are only shown."""


def sample_process(process_id: int) -> Sampled:
    """Return what one process holds.

    ``memory`` are the bytes that no other process maps, so it does not depend on other processes.

    Raises:
        OSError: the process has ended.
    """
    process = Path(f"/proc/{process_id}")
    memory = read_memory(process_id)
    status = dict(
        line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line
    )
    return {
        "memory": memory.uss_bytes,
        "pss": memory.pss_bytes,
        "rss": int(status["VmRSS"].split()[0]) * 1024,
        "threads": int(status["Threads"]),
        "descriptors": len(os.listdir(process / "fd")),
    }


def sample_metrics(metrics: Mapping[str, float]) -> Sampled:
    """Return what the daemon itself counts."""
    sampled = {
        "queued": sum(v for name, v in metrics.items() if name.startswith(_QUEUES)),
        "connections": sum(v for name, v in metrics.items() if name.startswith(_CONNECTIONS)),
        "collections": sum(
            v for name, v in metrics.items() if name.startswith("python_gc_collections_total")
        ),
    }
    if "authorizerd_tasks" in metrics:
        sampled["tasks"] = metrics["authorizerd_tasks"]
    return sampled


def sample(site: Site) -> Iterator[tuple[str, Sampled]]:
    """Yield what each process of a daemon holds, by the process's name.

    A worker's name has its process id. A process that has just ended is left out.
    """
    main = sample_process(site.process_id)
    yield f"{site.name}: daemon", main | sample_metrics(site.metrics())
    for worker in site.workers:
        with suppress(OSError):
            yield f"{site.name}: worker {worker}", sample_process(worker)
