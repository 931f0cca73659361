"""What was read, on the page: every line accounted for, and every file that the report is of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.report.bars import Part, parts
from authorizerd.replay.report.markup import Markup, element
from authorizerd.replay.report.results import ResultFile
from authorizerd.replay.report.tables import Column, Listing, facts, listing, plain_table
from authorizerd.replay.report.wording import code, count, name, time_text


def ingest_section(ingest: Ingested) -> Markup:
    return element(
        "section",
        element("h2", "What was read"),
        facts("What was read", _terms(ingest)),
        parts(
            "Lines",
            [
                Part("events", ingest.events, "part-1"),
                Part("blank", ingest.blank_lines, "part-2"),
                Part("set aside", ingest.set_aside, "part-3"),
            ],
        ),
        parts(
            "Events",
            [
                Part("allowed", ingest.allowed_events, "part-1"),
                Part("denied", ingest.denied_events, "part-3"),
            ],
        ),
        _counts("Lines set aside", "Reason", ingest.reasons),
        _counts("Events by log level", "Level", ingest.levels),
        listing(
            Listing(
                title="Inputs",
                columns=[Column("Input")],
                rows=([name(each)] for each in ingest.inputs),
                total=len(ingest.inputs),
                elsewhere="ingest.json",
            )
        ),
        id="ingest",
    )


def files_section(files: Mapping[str, ResultFile]) -> Markup:
    """Return the files that the report was made of."""
    columns = [Column("File"), Column("Bytes", "number"), Column("SHA-256")]
    rows = ([name(file.path), count(file.bytes), code(file.sha256)] for file in files.values())
    return element(
        "section",
        element("h2", "Files"),
        plain_table("Files that this report was made of", columns, rows),
        id="files",
    )


def _terms(ingest: Ingested) -> Iterator[tuple[str, str | None]]:
    yield "Accepted", "yes" if ingest.accepted else "no"
    yield "Lines", count(ingest.lines)
    yield "Events", count(ingest.events)
    yield "Distinct requests", count(ingest.tuples)
    yield "First (UTC)", time_text(ingest.first_at)
    yield "Last (UTC)", time_text(ingest.last_at)
    yield "Times without a zone are in", name(ingest.time_zone)


def _counts(title: str, what: str, counts: dict[str, int]) -> Markup:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return listing(
        Listing(
            title=title,
            columns=[Column(what), Column("Count", "number")],
            rows=([name(said), count(number)] for said, number in ranked),
            total=len(counts),
            elsewhere="ingest.json",
        )
    )
