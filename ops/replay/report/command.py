"""The command ``replay report``: show the results of a run, or what differs between two.

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
from authorizerd.replay.report.difference_findings import assess_difference
from authorizerd.replay.report.differences import Difference, compare
from authorizerd.replay.report.errors import ReportError
from authorizerd.replay.report.findings import SYMBOLS, Finding, assess
from authorizerd.replay.report.results import DECODERS, ResultFile, parse_local, read_results
from authorizerd.replay.text import encode_json

PAGE_NAME: Final = "report.html"
DIFFERENCE_NAME: Final = "difference.html"
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


class DifferenceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``difference.json``; ``version`` is as in ``ReportDocument``."""

    version: int = VERSION
    findings: tuple[Finding, ...]
    difference: Difference


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
        "--against",
        type=parse_local,
        metavar="DIR",
        help="directory of an earlier run: show only what differs between the two",
    )
    parser.add_argument(
        "--out",
        type=parse_local,
        metavar="FILE",
        help=f"HTML file to write; default {PAGE_NAME} in the directory of --run, or"
        f" {DIFFERENCE_NAME} with --against; its data is written next to it as JSON",
    )


def run_report(parsed: argparse.Namespace) -> int:
    """Write both files, print the findings, and return the exit code.

    Raises:
        ReportError: a result cannot be read, or a file cannot be written.
    """
    name = PAGE_NAME if parsed.against is None else DIFFERENCE_NAME
    page_path, json_path = _outputs(parsed.out or parsed.directory / name)
    if parsed.against is None:
        findings, page, document = _report(parsed.directory)
    else:
        findings, page, document = _compare(parsed.against, parsed.directory)
    _write(json_path, encode_json(document))
    _write(page_path, page)
    for line in _summary(findings):
        print(escape_unprintable(line))
    for path in (page_path, json_path):
        print(escape_unprintable(f"wrote {path}: {path.stat().st_size:,} bytes"))
    return EXIT_DONE


def _report(directory: Path) -> tuple[Sequence[Finding], str, object]:
    # Imported late: `authorizerd replay --help` must work without Jinja2.
    from authorizerd.replay.report.rendering import make_page

    results = read_results(directory)
    findings = assess(results)
    document = ReportDocument(findings=findings, files=results.files, results=results.texts)
    return findings, make_page(_name(directory), results, findings), document


def _compare(was_directory: Path, now_directory: Path) -> tuple[Sequence[Finding], str, object]:
    from authorizerd.replay.report.rendering import make_difference_page

    if was_directory.resolve() == now_directory.resolve():
        raise ReportError(f"--against: {was_directory}: expected another directory than --run")
    names = _name(was_directory), _name(now_directory)
    if names[0] == names[1]:
        names = str(was_directory), str(now_directory)
    was, now = read_results(was_directory), read_results(now_directory)
    difference = compare(was, now, names)
    findings = assess_difference(difference)
    page = make_difference_page(difference, was, now, findings)
    return findings, page, DifferenceDocument(findings=findings, difference=difference)


def _name(directory: Path) -> str:
    return directory.resolve().name or str(directory)


def _outputs(page_path: Path) -> tuple[Path, Path]:
    """Return the paths of the page and of its JSON."""
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
