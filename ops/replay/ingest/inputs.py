"""Find the files that an ingest reads; those of this machine as Hadoop lists them for Spark.

**Invariant:** an input that matches no file, or a file that cannot be read, raises an error that
names it. Of an events table, only the live runs are read.
"""

from __future__ import annotations

import errno
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from glob import glob
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.text.printable import is_utf_8
from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.commit import Input
from authorizerd.replay.ingest.parse.logs import UNSUPPORTED_SUFFIXES, find_suffix

TABLE_FILE: Final = re.compile(
    r"(?s)(.*?)/(?:commits/[0-9]{8}\.json(?:/[^/]*)?"
    r"|events/run=[^/]+/day=[^/]+/[^/]+\.parquet)"
)
"""A file of a table. If no commit lists it, it belongs to a run that died."""
_GLOB: Final = re.compile(r"[*?]")
_GLOB_OF_HADOOP: Final = re.compile(r"[\[{\\]")
_PLACE: Final = re.compile(r"(?s)([^:/]+:(?://([^:/]*)[^/]*)?)?(.*)")


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """URIs of files, in order, grouped by the way in which they are read."""

    plain: tuple[str, ...]
    packed: tuple[str, ...]
    parquet: tuple[str, ...]


def collect(
    inputs: Iterable[str], list_input: Callable[[str], Iterable[Input]]
) -> tuple[Input, ...]:
    """Return the files that ``list_input`` finds for paths, globs and URIs, in order, each once.

    Raises:
        JobError: an input matches no file, or a file that cannot be read.
    """
    found: dict[str, Input] = {}  # a dict keeps the order, and each file once
    for text in inputs:
        try:
            files = sorted(list_input(text), key=lambda file: file.uri)
        except OSError as error:
            named = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            raise JobError(named) from error
        if not files:
            raise JobError(f"{text}: no files found (names that begin with _ or . are skipped)")
        found |= {file.uri: file for file in files}
    return tuple(found.values())


def sort_inputs(files: Iterable[Input]) -> Inputs:
    """Return the files by the way in which they are read.

    Raises:
        JobError: a file is an archive of an unsupported kind.
    """
    kinds: dict[str, list[str]] = {"plain": [], "packed": [], "parquet": []}
    for file in files:
        kinds[_kind(file.uri)].append(file.uri)
    return Inputs(**{kind: tuple(uris) for kind, uris in kinds.items()})


def check_apart(files: Iterable[Input], out: str) -> None:
    """Check that no input is in the output directory.

    Raises:
        JobError: an input is below ``out``.
    """
    out_host, folder = _place(out)
    for file in files:
        host, path = _place(file.uri)
        # A path without a scheme may be on any host.
        if path.startswith(f"{folder.rstrip('/')}/") and (host == out_host or out_host is None):
            raise JobError(f"{file.uri} is inside --out {out}: expected files outside it")


def check_sources(files: Iterable[Input], topics: Iterable[str]) -> None:
    """Check that a table is read alone, or with Parquet of other tools.

    Its events name their original logs and topics. Events from another source with the same name
    would be merged into one content with them, and neither would be recognized later.

    Raises:
        JobError: there is another table, a log or a topic besides a table.
    """
    uris = [file.uri for file in files]
    tables = dict.fromkeys(found[1] for found in map(TABLE_FILE.fullmatch, uris) if found)
    others = [*topics, *(uri for uri in uris if _kind(uri) != "parquet")]
    table, *others = (*tables, *others) if tables else ("",)
    if others:
        raise JobError(
            f"--input: {table}: expected no other source besides a table, found {others[0]}: its "
            "lines may already be in the table, and would be counted twice. Ingest them one after "
            "the other"
        )


def _place(uri: str) -> tuple[str | None, str]:
    """Return the host, None without a scheme, and the path of a URI.

    The scheme and the port are ignored: s3 and s3a name the same location, and the port is
    optional.
    """
    found = _PLACE.fullmatch(uri)
    assert found is not None, "every text is a path"
    return (found[2] or "") if found[1] else None, found[3]


def _kind(uri: str) -> str:
    name = uri.lower()
    if name.endswith(UNSUPPORTED_SUFFIXES):
        raise JobError(f"{uri}: this archive format is not supported: unpack the file first")
    if name.endswith(".parquet"):
        return "parquet"
    return "packed" if find_suffix(name) else "plain"


def describe(path: Path) -> Input:
    """Return a file of this machine.

    Raises:
        JobError: it is not a regular file.
        OSError: it does not exist.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        # A pipe has size 0, so nothing would be read.
        raise JobError(f"{path}: expected a regular file: copy its content to a file first")
    modified_ms = status.st_mtime_ns // 1_000_000
    return Input(uri=f"file:{path.absolute()}", bytes=status.st_size, modified_ms=modified_ms)


def needs_hadoop(text: str) -> bool:
    """Return True for a glob with braces, brackets or a backslash, which only Hadoop expands."""
    # A name may contain these characters, so first look for a file of that exact name.
    return _GLOB_OF_HADOOP.search(text) is not None and not Path(text).exists()


def find_files(text: str) -> Iterator[Path]:
    """Yield the files that a path or a glob names, and those below directories, in order.

    Hidden files are left out. A path that does not exist is yielded unchanged.

    Raises:
        OSError: a directory cannot be read, or a name is not UTF-8, so that no result can name it.
    """
    is_glob = _GLOB.search(text) is not None and not Path(text).exists()
    for path in map(Path, sorted(glob(text)) if is_glob else [text]):
        # The name .. looks hidden, and Hadoop removes it without following links.
        yield from _find_below(path.resolve() if ".." in path.parts else path)


def _find_below(path: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    if path.name.startswith(("_", ".")) or path.name.endswith("._COPYING_"):
        return  # Spark skips it as well
    if not is_utf_8(str(path)):
        raise OSError(errno.EILSEQ, "expected a name in UTF-8: rename the file", str(path))
    if not path.is_dir():
        yield path
    elif (folder := path.resolve()) not in above:  # a link to a folder above adds no files
        for below in sorted(path.iterdir()):
            yield from _find_below(below, above | {folder})
