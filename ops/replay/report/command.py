"""The command ``replay report``: read the results of a run, and write the page and its JSON.

**Invariant:** each file is written completely or not at all, and no result is overwritten. The
command does not need Spark.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.printable import escape_unprintable
from authorizerd.replay.messages import EXIT_DONE
from authorizerd.replay.report.errors import ReportError
from authorizerd.replay.report.findings import SYMBOLS, Finding, assess
from authorizerd.replay.report.results import DECODERS, ResultFile, parse_local, read_results
from authorizerd.replay.text import encode_json

PAGE_NAME: Final = "report.html"
VERSION: Final = 1
_JSON: Final = ".json"


class ReportDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``report.json``. The results are exactly as their jobs wrote them.

    The keys of ``files`` and ``results`` are the kinds of result. ``version`` increases when
    another field changes its meaning.
    """

    version: int = VERSION
    findings: tuple[Finding, ...]
    files: dict[str, ResultFile]
    results: dict[str, msgspec.Raw]


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``report``."""
    parser.set_defaults(run=run_report)
    parser.add_argument(
        "--run",
        dest="directory",
        required=True,
        type=parse_local,
        metavar="DIR",
        help="directory to search for ingest.json, whatif.json, usage.json and load.json, also in"
        " its direct subdirectories",
    )
    parser.add_argument(
        "--out",
        type=parse_local,
        metavar="FILE",
        help=f"HTML file to write; default DIR/{PAGE_NAME}; its data is written next to it as JSON",
    )


def run_report(parsed: argparse.Namespace) -> int:
    """Write both files, print the findings, and return the exit code.

    Raises:
        ReportError: a result cannot be read, or a file cannot be written.
    """
    # Imported late: `authorizerd replay --help` must work without Jinja2.
    from authorizerd.replay.report.rendering import make_page

    directory: Path = parsed.directory
    page_path, json_path = _outputs(directory, parsed.out)
    results = read_results(directory)
    findings = assess(results)
    document = ReportDocument(findings=findings, files=results.files, results=results.texts)
    page = make_page(directory.resolve().name or str(directory), results, findings)
    _write(json_path, encode_json(document))
    _write(page_path, page)
    for line in _summary(findings):
        print(escape_unprintable(line))
    for path in (page_path, json_path):
        print(escape_unprintable(f"wrote {path}: {path.stat().st_size:,} bytes"))
    return EXIT_DONE


def _outputs(directory: Path, out: Path | None) -> tuple[Path, Path]:
    """Return the paths of the page and of its JSON."""
    page_path = out if out is not None else directory / PAGE_NAME
    json_path = page_path.with_suffix(_JSON) if page_path.name else page_path
    results = {f"{kind}{_JSON}" for kind in DECODERS}
    if page_path.suffix not in (".html", ".htm"):
        raise ReportError(f"--out: {page_path}: expected a file name that ends in .html")
    if json_path.name in results:
        raise ReportError(
            f"--out: {page_path}: {json_path.name} would overwrite a result; choose another name"
        )
    return page_path, json_path


def _write(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.being-written")
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise ReportError(f"{path}: {error.strerror}") from error


def _summary(findings: Sequence[Finding]) -> Iterator[str]:
    for each in findings:
        yield f"{SYMBOLS[each.state]} {each.about}: {each.text}"
        yield from (f"    {note}" for note in each.notes)
