"""The cost of unwrapping: lines in JSON beside the same lines as a broker writes them.

**Invariant:** a figure counts only if each form of the lines contains the same events. The forms
take turns, so that each has its share of what else the machine does.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from itertools import chain
from typing import Final

import msgspec
import pyarrow

from authorizerd.replay.ingest.parse.columns import EventReader
from authorizerd.replay.local.tallies import Summand, Tallies
from tools.bench.audit_logs import audit_lines
from tools.bench.decisions import DisagreementError
from tools.bench.figures import Line, Peer

LINES: Final = 50_000

_ROUNDS: Final = 3
_TIME: Final = "2026-11-21T16:26:26.914Z"
_PLAIN: Final = "plain lines"
_DOCKER: Final = "Docker's"
_NAMED: Final = "--line-field event.original"

Counts = Counter[bool]
"""How many events were allowed and denied."""


def measure_wrapped_lines(lines: int = LINES) -> Iterator[Line]:
    """Yield the lines that each engine reads in a second of CPU time, by the form of the lines.

    Raises:
        DisagreementError: a form has other events than the plain lines.
    """
    forms = _make_forms([*chain.from_iterable(audit_lines(lines))])
    for engine, read in (("in this process", _tally), ("in a task of Spark", _read_columns)):
        seconds: dict[str, list[float]] = {form: [] for form in forms}
        for _ in range(_ROUNDS):
            counts = []
            for form, (field, encoded) in forms.items():
                begun = time.process_time()
                counts.append(read(encoded, field))
                seconds[form].append(time.process_time() - begun)
            if counts[0].total() != lines or counts != counts[:1] * len(counts):
                raise DisagreementError(f"{engine}: expected equal events, found {counts}")
        plain, *others = ((form, lines / min(times)) for form, times in seconds.items())
        for form, rate in others:
            yield Line(
                what=f"replay, {lines:,} lines in JSON, {engine}: {form}",
                unit="lines/s",
                ours=rate,
                peer=Peer(*plain),
                more_is_better=True,
            )


def _make_forms(lines: Sequence[str]) -> dict[str, tuple[str | None, list[bytes]]]:
    """Return the lines in each form, and the field that the user names for it."""
    wrapping: tuple[tuple[str, str | None, Callable[[str], object]], ...] = (
        (_DOCKER, None, lambda line: {"log": f"{line}\n", "stream": "stdout", "time": _TIME}),
        (_NAMED, "event.original", lambda line: {"@timestamp": _TIME, "event": {"original": line}}),
    )
    forms: dict[str, tuple[str | None, list[bytes]]] = {
        _PLAIN: (None, [line.encode() for line in lines])
    }
    for form, field, wrap in wrapping:
        forms[form] = field, [msgspec.json.encode(wrap(line)) for line in lines]
    return forms


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
