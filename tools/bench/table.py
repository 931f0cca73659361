"""The parts and their results: a JSON file for each, and the tables of ``docs/performance.md``.

Cases with metrics in common are one table: a row for each case, a column for each metric, or the
other way round if there are many metrics. A case with metrics of its own is one line.
**Invariant:** quick results and failed parts are never written; the page names what it lacks.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from tools.bench import (
    creations,
    decisions,
    early_start,
    event_loop,
    floods,
    following,
    in_memory,
    outages,
    replay,
    scale,
    searches,
    tls,
)
from tools.bench.figures import Row
from tools.bench.run import Run
from tools.processes import find_program

Part = Callable[[Run], Iterator[Row]]
PARTS: Final[Mapping[str, Part]] = {
    "http": decisions.measure_http,
    "openfga": decisions.measure_openfga,
    "stream": decisions.measure_stream,
    "search": searches.measure_searches,
    "workers": decisions.measure_workers,
    "in-memory": in_memory.measure_in_memory,
    "event-loop": event_loop.measure_event_loop,
    "early-start": early_start.measure_early_start,
    "scale": scale.measure_scale,
    "connections": scale.measure_connections,
    "tls": tls.measure_tls,
    "log-ins": tls.measure_log_ins,
    "floods": floods.measure_floods,
    "creations": creations.measure_creations,
    "following": following.measure_following,
    "outages": outages.measure_outages,
    "replay": replay.measure_replay,
    "replay-growth": replay.measure_growth,
}
"""In the order of the page. Parts do not depend on each other."""
_SINGLE: Final = "AuthZEN, 1 a request, 16 connections, latency at 1000/s"
SUMMARY: Final = (
    ("a decision in memory, 505,000 ACLs",
     "in-memory", "wide-50000-10 (505,000 ACLs)", "authorize, median"),
    ("HTTP, 16 connections, a decision in each request", "http", _SINGLE, "decisions"),
    ("their latency at 1,000 a second, p99", "http", _SINGLE, "p99"),
    ("HTTP, 16 connections, 100 decisions in each request",
     "http", "AuthZEN, 100 a request, 16 connections, latency at 100/s", "decisions"),
    ("decision stream, 100 questions in each frame",
     "stream", "stream, 100 a frame, 16 in flight, latency at 500/s", "decisions"),
    ("HTTPS, a handshake and a decision, P-256",
     "tls", "handshakes, ECDSA P-256, 1 a request, 16 connections, latency at 200/s", "handshakes"),
    ("a start with 505,000 ACLs", "scale", "505,000 ACLs", "start from a checkpoint"),
    ("createAcls of one ACL, p50", "creations",
     "createAcls, 1 binding, 1 client, fdatasync, latency at 8/s, beside Kafka 4.3.1, linger 0",
     "p50"),
)  # fmt: skip
"""What the page begins with: a name, and the part, case and metric of a row."""
PAGE: Final = Path("docs/performance.md")
BEGIN: Final = "<!-- figures: begin; written by python -m tools.bench --write -->\n"
END: Final = "<!-- figures: end -->"
_VERSION: Final = re.compile(r"\d+\.\d+[-.\w]*")
_PERCENT: Final = re.compile(r"(?:^|, )(p\d+|median \(of \d+\))$")
_COLUMNS_FOR_A_ROW: Final = 3
"""A table with more columns than this times its rows is transposed."""
_PROGRAMS: Final = {"wrk": "-v", "opa": "version", "openfga": "version", "java": "-version"}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a part. If ``error`` is not "", the part failed and is not published."""

    part: str
    began: str
    seconds: float
    machine: str
    load_average: float
    is_quick: bool
    rows: list[Row]
    error: str = ""


def write_result(folder: Path, result: Result) -> None:
    """Write the file of a part atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{result.part}.tmp"
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
    unfinished.replace(folder / f"{result.part}.json")


def read_results(folder: Path) -> dict[str, Result]:
    """Return the results of a folder by the name of their part."""
    decode = msgspec.json.Decoder(Result).decode
    results = [decode(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
    return {result.part: result for result in results}


def describe_machine() -> str:
    """Return a line about this machine and the versions of the programs that a run may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {_version(name, option)}" for name, option in _PROGRAMS.items())
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return (
        f"{names[0] if names else 'unknown'}, {len(os.sched_getaffinity(0))} cores, {gib:.0f} GiB; "
        f"{system}; {platform.python_implementation()} {platform.python_version()}; {versions}"
    )


def _version(name: str, option: str) -> str:
    program = find_program(name)
    if program is None:
        return "absent"
    done = subprocess.run([program, option], capture_output=True, text=True, check=False)
    # Some print their version to standard error, and some with an exit code.
    found = _VERSION.search(done.stdout + done.stderr)
    return "unknown" if found is None else found[0]


def draw(results: Mapping[str, Result]) -> str:
    """Return the tables of all parts, in the order of ``PARTS``."""
    shown = [results[name] for name in PARTS if name in results and not results[name].error]
    lacking = [name for name in PARTS if name not in {result.part for result in shown}]
    texts = [f"Not measured: {', '.join(lacking)}."] if lacking else []
    for machine in dict.fromkeys(result.machine for result in shown):
        there = [result for result in shown if result.machine == machine]
        loads = [result.load_average for result in there]
        texts.append(
            f"{machine}. Begun at {min(result.began for result in there)}; "
            f"{sum(result.seconds for result in there) / 60:.0f} minutes; "
            f"load average before the parts: {min(loads):.1f} to {max(loads):.1f}."
        )
    texts.append(_draw_summary(shown))
    texts += [f"### `{result.part}`\n{draw_rows(result.rows)}" for result in shown]
    return "\n\n".join(texts) + "\n"


def _draw_summary(results: Sequence[Result]) -> str:
    """Return a table of the rows in ``SUMMARY`` that were measured."""
    rows = {(each.part, row.what, row.metric): row for each in results for row in each.rows}
    found = [(name, rows.get((part, what, metric))) for name, part, what, metric in SUMMARY]
    lines = [f"| {name} | {row} |" for name, row in found if row is not None]
    return "\n".join(["### In short", "|  |  |", "| --- | --- |", *lines])


def draw_rows(rows: Sequence[Row]) -> str:
    """Return the tables and lines of a part; percentiles of the same times share a cell."""
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        percent, of = _PERCENT.search(row.metric), _PERCENT.sub("", row.metric) or "latency"
        text = str(row) if percent is None else f"{percent[1]} {row}"
        case = cells.setdefault(row.what, {})
        case[of] = f"{case[of]}; {text}" if of in case else text
    groups: list[list[str]] = []
    for what, own in cells.items():
        joined = [each for each in groups if any(own.keys() & cells[other] for other in each)]
        groups = [each for each in groups if each not in joined]
        groups.append([*chain(*joined), what])
    return "\n\n".join(_draw_group({what: cells[what] for what in group}) for group in groups)


def _draw_group(cells: Mapping[str, Mapping[str, str]]) -> str:
    names = [*cells]
    columns = [*dict.fromkeys(chain(*cells.values()))]
    if len(names) == 1:
        return f"- {names[0]}: {'; '.join(f'{of} {text}' for of, text in cells[names[0]].items())}"
    lines = [["", *columns], ["---"] * (len(columns) + 1)]
    lines += [[name, *(cells[name].get(column, "") for column in columns)] for name in names]
    if len(columns) > _COLUMNS_FOR_A_ROW * len(names):
        turned = [[*line] for line in zip(lines[0], *lines[2:], strict=True)]
        lines = [turned[0], ["---"] * len(turned[0]), *turned[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def replace_figures(page: str, results: Mapping[str, Result]) -> str:
    """Return the page with these results, which must be of a full run, between its markers."""
    quick = [name for name, result in results.items() if result.is_quick]
    if quick or not results:
        raise ValueError(f"expected the results of a full run, found {quick or 'none'}")
    for _, part, what, metric in SUMMARY:
        result = results.get(part)
        rows = () if result is None or result.error else result.rows
        if rows and not any((row.what, row.metric) == (what, metric) for row in rows):
            raise ValueError(f"{part} has no row {what!r} with {metric!r}")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"expected the lines {BEGIN!r} and {END!r}, in this order")
    return f"{before}{begin}\n{draw(results)}\n{end}{after}"
