"""The cost of unwrapping: lines in JSON beside the same lines as a broker writes them.

**Invariant:** a figure counts only if each form of the lines contains the same events. The forms
take turns, so that each has its share of what else the machine does.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC
from itertools import chain
from typing import Final

import msgspec
import pyarrow

from authorizerd.replay.ingest.parse.columns import EventReader
from authorizerd.replay.local.tallies import Summand, Tallies
from tools.bench.audit_logs import audit_lines
from tools.bench.figures import MeasurementError, Peer, Row

_ROUNDS: Final = 3
_TIME: Final = "2026-11-21T16:26:26.914Z"
_FIELD: Final = "event.original"

Counts = Counter[bool]
"""How many events were allowed and denied."""


def measure_wrapped_lines(lines: int, distinct: int) -> Iterator[Row]:
    """Yield the lines that each engine reads in a second of CPU time, by the form of the lines."""
    plain = [*chain.from_iterable(audit_lines(lines, distinct))]
    docker = ({"log": f"{line}\n", "stream": "stdout", "time": _TIME} for line in plain)
    named = ({"@timestamp": _TIME, "event": {"original": line}} for line in plain)
    forms: dict[str, tuple[str | None, list[bytes]]] = {
        "plain lines": (None, [line.encode() for line in plain]),
        "Docker's": (None, [*map(msgspec.json.encode, docker)]),
        f"--line-field {_FIELD}": (_FIELD, [*map(msgspec.json.encode, named)]),
    }
    for engine, read in (("in this process", _tally), ("in a task of Spark", _read_columns)):
        seconds: dict[str, list[float]] = {form: [] for form in forms}
        for _ in range(_ROUNDS):
            counts = []
            for form, (field, encoded) in forms.items():
                begun = time.process_time()
                counts.append(read(encoded, field))
                seconds[form].append(time.process_time() - begun)
            if counts[0].total() != lines or counts != counts[:1] * len(counts):
                raise MeasurementError(f"{engine}: expected equal events, found {counts}")
        peer, *others = ((form, lines / min(times)) for form, times in seconds.items())
        what = f"{lines:,} lines in JSON, {engine}"
        for form, rate in others:
            row = Row(what=what, metric=form, unit="lines/s", ours=rate, peer=Peer(*peer))
            yield msgspec.structs.replace(row, more_is_better=True)


def _tally(lines: Sequence[bytes], field: str | None) -> Counts:
    tallies = Tallies(UTC, field=field)
    tallies.add(lines)
    counts = Counts()
    for counted, tally in tallies:
        if isinstance(counted, Summand):
            counts[counted.allowed] += tally.lines
    return counts


def _read_columns(lines: Sequence[bytes], field: str | None) -> Counts:
    rows = EventReader(UTC, "auto", field).read(pyarrow.array(lines, pyarrow.binary()))
    return Counter(allowed for allowed in rows["allowed"].to_pylist() if allowed is not None)
