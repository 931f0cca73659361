"""The parts of the benchmark, in the order of the page. A part needs nothing of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tools.bench import (
    creations,
    early_start,
    event_loop,
    floods,
    following,
    http_decisions,
    in_memory,
    log_ins,
    replay,
    scale,
    searches,
    stream,
    tls,
    workers,
)
from tools.bench.figures import Row
from tools.bench.run import Run

Part = Callable[[Run], Iterator[Row]]

PARTS: Final[Mapping[str, Part]] = MappingProxyType(
    {
        "http": http_decisions.measure_http,
        "openfga": http_decisions.measure_openfga,
        "stream": stream.measure_stream,
        "search": searches.measure_searches,
        "workers": workers.measure_workers,
        "in-memory": in_memory.measure_in_memory,
        "event-loop": event_loop.measure_event_loop,
        "early-start": early_start.measure_early_start,
        "scale": scale.measure_scale,
        "connections": scale.measure_connections,
        "tls": tls.measure_tls,
        "log-ins": log_ins.measure_log_ins,
        "floods": floods.measure_floods,
        "creations": creations.measure_creations,
        "following": following.measure_following,
        "replay": replay.measure_replay,
        "replay-growth": replay.measure_growth,
    }
)
