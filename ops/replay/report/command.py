"""``replay report``: reads what the jobs of a run wrote, and writes the page and its JSON.

**Invariant:** both files are there whole or not at all, and no result is ever written over. Needs
no Spark.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from authorizerd.replay.messages import EXIT_DONE
from authorizerd.replay.report.document import encode_document
from authorizerd.replay.report.errors import ReportError
from authorizerd.replay.report.findings import SYMBOLS, Finding, findings
from authorizerd.replay.report.page import make_page
from authorizerd.replay.report.results import DECODERS, read_results
from authorizerd.replay.report.wording import format_count
from authorizerd.replay.whatif.report import shown

PAGE_NAME: Final = "report.html"
_JSON: Final = ".json"


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run_report)
    parser.add_argument(
        "--run",
        dest="directory",
        required=True,
        type=Path,
        metavar="DIR",
        help="holds ingest.json, whatif.json, usage.json or load.json, or directories that do",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help=f"the page; DIR/{PAGE_NAME} without it. The same as JSON is written beside it",
    )


def run_report(parsed: argparse.Namespace) -> int:
    """Write the report, and say what it comes to.

    Raises:
        ReportError: it cannot be made.
    """
    directory: Path = parsed.directory
    page_path, json_path = _outputs(directory, parsed.out)
    results = read_results(directory)
    found = findings(results)
    title = directory.resolve().name or str(directory)
    _write(json_path, encode_document(results, found))
    _write(page_path, make_page(title, results, found))
    for line in _summary(found):
        print(shown(line))
    for path in (page_path, json_path):
        print(shown(f"wrote {path}: {format_count(path.stat().st_size)} bytes"))
    return EXIT_DONE


def _outputs(directory: Path, out: Path | None) -> tuple[Path, Path]:
    """Return where the page goes, and where its JSON does."""
    page_path = out if out is not None else directory / PAGE_NAME
    json_path = page_path.with_suffix(_JSON) if page_path.name else page_path
    taken = {f"{kind}{_JSON}" for kind in DECODERS}
    if page_path.suffix not in (".html", ".htm") or json_path.name in taken:
        raise ReportError(
            f"--out: {page_path}: not a name for the page: NAME.html, where NAME{_JSON} beside it"
            " is not that of a result"
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


def _summary(found: Sequence[Finding]) -> Iterator[str]:
    for each in found:
        yield f"{SYMBOLS[each.state]} {each.about}: {each.text}"
        yield from (f"    {note}" for note in each.notes)
