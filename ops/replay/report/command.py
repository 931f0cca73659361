"""The command ``replay report``: show the results of a run, or what differs between two.

**Invariant:** each file is written completely or not at all, and no result is overwritten. The
command does not need Spark.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.program.flags import add_value
from authorizerd.replay.errors import ReportError
from authorizerd.replay.messages import EXIT_DONE
from authorizerd.replay.options import parse_file
from authorizerd.replay.report.differences import assess_difference, compare
from authorizerd.replay.report.findings import SYMBOLS, Finding, assess
from authorizerd.replay.report.results import DECODERS, read_results
from authorizerd.replay.text import encode_json, write_file

PAGE_NAME: Final = "report.html"
DIFFERENCE_NAME: Final = "difference.html"
VERSION: Final = 1
"""The version of both JSON documents. It increases when a field changes its meaning."""

Pages = tuple[Sequence[Finding], str, dict[str, object]]
"""The findings of a page, its HTML, and the content of the JSON next to it."""


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``report``."""
    parser.set_defaults(run=run_report)
    text = (
        "directory to search for ingest.json, whatif.json, usage.json and load.json, also in"
        " its direct subdirectories"
    )
    add_value(parser, "--run", parse_file, "DIR", text, dest="directory", required=True)
    text = "directory of an earlier run: show only what differs between the two"
    add_value(parser, "--against", parse_file, "DIR", text)
    text = (
        f"HTML file to write; default {PAGE_NAME} in the directory of --run, or"
        f" {DIFFERENCE_NAME} with --against; its data is written next to it as JSON"
    )
    add_value(parser, "--out", parse_file, "FILE", text)


def run_report(parsed: argparse.Namespace) -> int:
    """Write both files, print the findings, and return the exit code.

    Raises:
        ReportError: a result cannot be read, or a file cannot be written.
    """
    page_path = parsed.out or parsed.directory / (
        PAGE_NAME if parsed.against is None else DIFFERENCE_NAME
    )
    json_path = _name_json(page_path)
    if parsed.against is None:
        findings, page, content = _report(parsed.directory)
    else:
        findings, page, content = _compare(parsed.against, parsed.directory)
    document = {"version": VERSION, "findings": findings, **content}
    for path, text in ((json_path, encode_json(document)), (page_path, page)):
        try:
            write_file(path, text)
        except OSError as error:
            raise ReportError(f"{path}: {error.strerror}") from error
    for finding in findings:
        print(escape_unprintable(f"{SYMBOLS[finding.state]} {finding.about}: {finding.text}"))
        for note in finding.notes:
            print(escape_unprintable(f"    {note}"))
    for path in (page_path, json_path):
        print(escape_unprintable(f"wrote {path}: {path.stat().st_size:,} bytes"))
    return EXIT_DONE


def _report(directory: Path) -> Pages:
    # Imported late: `authorizerd replay --help` must work without Jinja2.
    from authorizerd.replay.report.rendering import make_page

    results = read_results(directory)
    findings = [*assess(results)]
    page = make_page(_name(directory), results, findings)
    # The results are exactly as their jobs wrote them.
    return findings, page, {"files": results.files, "results": results.texts}


def _compare(was_directory: Path, now_directory: Path) -> Pages:
    from authorizerd.replay.report.rendering import make_difference_page

    if was_directory.resolve() == now_directory.resolve():
        raise ReportError(f"--against: {was_directory}: expected another directory than --run")
    names = _name(was_directory), _name(now_directory)
    if names[0] == names[1]:
        names = str(was_directory), str(now_directory)
    was, now = read_results(was_directory), read_results(now_directory)
    difference = compare(was, now, names)
    findings = [*assess_difference(difference)]
    page = make_difference_page(difference, was, now, findings)
    return findings, page, {"difference": difference}


def _name(directory: Path) -> str:
    return directory.resolve().name or str(directory)


def _name_json(page_path: Path) -> Path:
    if page_path.suffix not in (".html", ".htm"):
        raise ReportError(f"--out: {page_path}: expected a file name that ends in .html")
    json_path = page_path.with_suffix(".json")
    if json_path.stem in DECODERS:
        raise ReportError(
            f"--out: {page_path}: {json_path.name} would overwrite a result; choose another name"
        )
    return json_path
