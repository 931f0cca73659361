"""The results of a run, found and read: what its jobs wrote last, each into its directory.

**Invariant:** at most one of each kind is read, from the directory or from those directly in it;
where there are two nobody can say which is meant, and none is taken. What was read is known by its
hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.replay.ingest.report import Ingested, decode_ingested
from authorizerd.replay.judging.report import JudgedBy
from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.report.errors import ReportError
from authorizerd.replay.text import escape_unprintable
from authorizerd.replay.usage.report import UsageReport, decode_usage
from authorizerd.replay.whatif.report import RecordedBaseline, WhatIf

BYTES_MAX: Final = 256 * 1024 * 1024


class ResultFile(msgspec.Struct, frozen=True, kw_only=True):
    """``path`` is below the run's directory."""

    path: str
    bytes: int
    sha256: str


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """What was found; ``texts`` are the files as they stand, by kind."""

    files: dict[str, ResultFile]
    texts: dict[str, msgspec.Raw]
    ingest: Ingested | None = None
    whatif: WhatIf | None = None
    usage: UsageReport | None = None
    load: LoadReport | None = None


def decode_whatif(text: str) -> WhatIf:
    """Return what a ``whatif.json`` says.

    Raises:
        msgspec.DecodeError: it is another's.
    """
    # What was recorded and a set of ACLs are told apart by the fields that they have.
    parts = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    baseline = msgspec.json.decode(parts.pop("baseline", b"{}"), type=dict[str, Any])
    kind: type[JudgedBy | RecordedBaseline] = JudgedBy if "digest" in baseline else RecordedBaseline
    fields = {
        field.name: msgspec.json.decode(parts[field.name], type=field.type)
        for field in msgspec.structs.fields(WhatIf)
        if field.name in parts
    }
    try:
        return WhatIf(**fields, baseline=msgspec.convert(baseline, kind))
    except TypeError as error:
        raise msgspec.ValidationError(str(error)) from error


DECODERS: Final[dict[str, Callable[[str], Any]]] = {
    "ingest": decode_ingested,
    "whatif": decode_whatif,
    "usage": decode_usage,
    "load": msgspec.json.Decoder(LoadReport).decode,
}


def read_results(directory: Path) -> Results:
    """Return all that is found in ``directory``, or directly in one of its directories.

    Raises:
        ReportError: there is nothing, or two of a kind, or something cannot be read.
    """
    try:
        places = [directory, *sorted(path for path in directory.iterdir() if path.is_dir())]
    except OSError as error:
        raise ReportError(f"--run: {directory}: {error.strerror}") from error
    found = {kind: _only(places, f"{kind}.json") for kind in DECODERS}
    paths = {kind: path for kind, path in found.items() if path is not None}
    if not paths:
        names = ", ".join(f"{kind}.json" for kind in DECODERS)
        raise ReportError(f"--run: {directory}: none of {names} is in it, or one directory down")
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
    found = [place / name for place in places if (place / name).is_file()]
    if len(found) > 1:
        raise ReportError(
            f"--run: {found[0]} and {found[1]}: two of a kind; name a directory that has one"
        )
    return found[0] if found else None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}") from error
    if len(data) > BYTES_MAX:
        raise ReportError(f"{path}: larger than {BYTES_MAX:,} bytes, which are read at most")
    return data


def _decoded(kind: str, path: Path, data: bytes) -> Any:  # noqa: ANN401 - the decoder's own type
    try:
        return DECODERS[kind](data.decode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"{path}: not what {kind} writes: {error}") from error
