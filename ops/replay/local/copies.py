"""Find logs whose lines another log has, too: ``x.log`` beside ``x.log.gz``, or before it grew.

**Invariant:** a log is left out only if another one begins with all of its lines, of which the last
may be incomplete. The events of the others are those that ``replay ingest`` counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import Final

from authorizerd.replay.local.files import LogReader

_OPENING_LINES: Final = 1_000
_IN_EVENTS: Final = b"rincipal"
"""In the events of every format. Other first lines, such as a header, are alike in all logs."""


def find_copies(files: Iterable[Path]) -> dict[Path, Path]:
    """Return the logs that need not be read, each with the one that has its lines. Blocks.

    Raises:
        TrafficError: a log cannot be read.
    """
    copies: dict[Path, Path] = {}
    alike: dict[bytes, list[Path]] = defaultdict(list)
    for path in files:
        if not path.is_file():  # a pipe can be read only once
            continue
        opening = islice(_read_lines(path), _OPENING_LINES)
        first = next((line for line in opening if _IN_EVENTS in line), None)
        if first is None:
            continue
        for other in alike[first]:
            shorter = _find_shorter(path, other)
            if shorter is not None:
                copies[shorter] = path if shorter is other else other
            if shorter is path:
                break
        else:
            alike[first].append(path)
        alike[first] = [other for other in alike[first] if other not in copies]
    return copies


def _find_shorter(path: Path, other: Path) -> Path | None:
    """Return the log with whose lines the other one begins, ``path`` if they are equal, or None."""
    pairs = zip_longest(_read_lines(path), _read_lines(other), fillvalue=b"")
    for line, beside in pairs:
        if line != beside:
            after, beside_after = next(pairs, (b"", b""))
            if beside.startswith(line) and not after:
                return path
            return other if line.startswith(beside) and not beside_after else None
    return path


def _read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines that are not blank; damage ends an archive."""
    for lines, _ in LogReader(path).lines():
        yield from filter(None, map(bytes.rstrip, lines))
