"""Find and read the results of a run: the files that its jobs wrote.

**Invariant:** at most one result of each kind is read, from the directory or one level below. Two
of a kind are an error, since either could be meant. Each result is identified by its hash. All
paths are local; a result may be a directory with one part file, as Spark writes it elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.metadata.bounded_file import read_file
from authorizerd.replay.errors import ReportError
from authorizerd.replay.ingest.report import Ingested, decode_ingested
from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.usage.report import UsageReport, decode_usage
from authorizerd.replay.whatif.report import WhatIf, decode_whatif


class ResultFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was read; ``path`` is relative to the run's directory."""

    path: str
    bytes: int
    sha256: str


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a run; ``texts`` are the unchanged files by kind."""

    files: dict[str, ResultFile]
    texts: dict[str, msgspec.Raw]
    ingest: Ingested | None = None
    whatif: WhatIf | None = None
    usage: UsageReport | None = None
    load: LoadReport | None = None


DECODERS: Final[dict[str, Callable[[str], Any]]] = {
    "ingest": decode_ingested,
    "whatif": decode_whatif,
    "usage": decode_usage,
    "load": msgspec.json.Decoder(LoadReport).decode,
}


def read_results(directory: Path) -> Results:
    """Return all results in ``directory`` and one level below.

    Raises:
        ReportError: there is no result, there are two of a kind, or one cannot be read.
    """
    files, texts, decoded = {}, {}, {}
    for kind, path in _find_results(directory).items():
        try:
            data = read_file(path)
            decoded[kind] = DECODERS[kind](data.decode())
        except OSError as error:
            raise ReportError(f"{path}: {error.strerror}") from error
        # Deeply nested JSON raises RecursionError.
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ReportError(f"{path}: not a result of {kind}: {error}") from error
        texts[kind] = msgspec.Raw(data)
        files[kind] = ResultFile(
            path=escape_unprintable(path.relative_to(directory).as_posix()),
            bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
        )
    return Results(files=files, texts=texts, **decoded)


def _find_results(directory: Path) -> dict[str, Path]:
    """Return the file of each kind of result."""
    try:
        places = [directory, *sorted(path for path in directory.iterdir() if path.is_dir())]
    except OSError as error:
        raise ReportError(f"{directory}: {error.strerror}") from error
    found: dict[str, Path] = {}
    for kind in DECODERS:
        paths = [place / f"{kind}.json" for place in places]
        parts = [part for path in paths for part in sorted(path.glob("part-*"))]
        # If only Spark can reach the files, a job removes a result by emptying it.
        written = [part for part in parts if part.is_file() and part.stat().st_size]
        for path in [*filter(Path.is_file, paths), *written]:
            if kind in found:
                raise ReportError(
                    f"found both {found[kind]} and {path}; name a directory with one of them"
                )
            found[kind] = path
    if not found:
        names = ", ".join(f"{kind}.json" for kind in DECODERS)
        raise ReportError(f"{directory}: found none of {names} here or one level below")
    return found
