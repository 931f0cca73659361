"""Find and read the results of a run: the files that its jobs wrote.

**Invariant:** at most one result of each kind is read, from the directory or one level below. Two
of a kind are an error, since either could be meant. Each result is identified by its hash. All
paths are local; a result may be a directory with one part file, as Spark writes it elsewhere.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.acl.printable import escape_unprintable
from authorizerd.replay.ingest.report import Ingested, decode_ingested
from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.report.errors import ReportError
from authorizerd.replay.usage.report import UsageReport, decode_usage
from authorizerd.replay.whatif.report import WhatIf, decode_whatif

BYTES_MAX: Final = 256 * 1024 * 1024


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


def parse_local(text: str) -> Path:
    """Return a path of this machine, an option's value.

    Raises:
        ArgumentTypeError: ``text`` is a URI.
    """
    if "://" in text:
        raise argparse.ArgumentTypeError(
            f"expected a path on this machine, found {text!r}: copy the results to a local "
            "directory first"
        )
    return Path(text)


def read_results(directory: Path) -> Results:
    """Return all results in ``directory`` and one level below.

    Raises:
        ReportError: there is no result, there are two of a kind, or one cannot be read.
    """
    try:
        places = [directory, *sorted(path for path in directory.iterdir() if path.is_dir())]
    except OSError as error:
        raise ReportError(f"{directory}: {error.strerror}") from error
    found = {kind: _only(places, f"{kind}.json") for kind in DECODERS}
    paths = {kind: path for kind, path in found.items() if path is not None}
    if not paths:
        names = ", ".join(f"{kind}.json" for kind in DECODERS)
        raise ReportError(f"{directory}: found none of {names}, here or one level below")
    files, texts, decoded = {}, {}, {}
    for kind, path in paths.items():
        data = _read(path)
        decoded[kind] = _decoded(kind, path, data)
        texts[kind] = msgspec.Raw(data)
        files[kind] = ResultFile(
            path=escape_unprintable(path.relative_to(directory).as_posix()),
            bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
        )
    return Results(files=files, texts=texts, **decoded)


def _only(places: list[Path], name: str) -> Path | None:
    found = [path for place in places for path in _list_files(place / name)]
    if len(found) > 1:
        raise ReportError(
            f"found both {found[0]} and {found[1]}; name a directory with one of them"
        )
    return found[0] if found else None


def _list_files(path: Path) -> list[Path]:
    """Return the file at ``path``, or the part files of a directory."""
    return sorted(path.glob("part-*")) if path.is_dir() else [path] if path.is_file() else []


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            # One byte above the limit shows that the file is too large.
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}") from error
    if len(data) > BYTES_MAX:
        raise ReportError(f"{path}: larger than the limit of {BYTES_MAX:,} bytes")
    return data


def _decoded(kind: str, path: Path, data: bytes) -> Any:  # noqa: ANN401 - the decoder's own type
    try:
        return DECODERS[kind](data.decode())
    # Deeply nested JSON raises RecursionError.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"{path}: not a result of {kind}: {error}") from error
