"""``make bench``: measure the project's figures, and a peer's figure in the same run.

    python -m tools.bench [--quick] [--parts NAMES] [--directory DIRECTORY]
    python -m tools.bench --write

The first command writes a JSON file for each part to ``DIRECTORY/bench/results``, and prints the
tables; the second one puts them into the documentation. ``--quick`` runs the parts on small sets,
without a JVM. The exit code is 1 if a part failed, or if an enforced limit was exceeded; the other
parts are still measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tools.bench import table
from tools.bench.figures import MeasurementError, Row, format_figure
from tools.bench.run import Run
from tools.bench.table import PAGE, PARTS, Part, Result
from tools.processes import end_at_sigterm


def measure(run: Run, names: Iterable[str], parts: Mapping[str, Part] = PARTS) -> Iterator[Result]:
    """Run the parts; yield the result of each, with an error if it failed."""
    machine = table.describe_machine()
    for name in names:
        began, load_average = time.strftime("%Y-%m-%dT%H:%M:%S%z"), os.getloadavg()[0]
        started, rows, error = time.monotonic(), list[Row](), ""
        try:
            rows.extend(parts[name](run))
            check_rows(rows)
        except Exception as raised:  # noqa: BLE001 - a failed part must not lose the others
            traceback.print_exc()
            error = f"{type(raised).__name__}: {raised}"
        seconds = time.monotonic() - started
        _report(f"{name}: {error or f'{len(rows)} figures'}, {seconds:.0f} s")
        yield Result(
            part=name, began=began, seconds=seconds, machine=machine, load_average=load_average,
            is_quick=run.is_quick, rows=rows, error=error,
        )  # fmt: skip


def check_rows(rows: list[Row]) -> None:
    """Raise MeasurementError if a part has no figures, or has a figure twice."""
    if not rows:
        raise MeasurementError("nothing was measured")
    names = [(row.what, row.metric) for row in rows]
    if twice := {name for name in names if names.count(name) > 1}:
        raise MeasurementError(f"measured twice: {min(twice)}")


def judge(rows: Iterable[Row], *, is_quick: bool) -> int:
    """Print each enforced limit that was exceeded; return their number."""
    # Times of a quick run mean nothing: tests run it while the machine is busy.
    broken = [row for row in rows if row.is_broken and not (is_quick and row.unit == "ms")]
    for row in broken:
        _report(f"{row.what}: {row.metric}: {format_figure(row.ours)} {row.unit} exceeds the limit")
    return len(broken)


def _report(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)


def names_of(text: str) -> list[str]:
    """Return the named parts once each, in the order of the page."""
    names = [each.strip() for each in text.split(",")]
    for name in names:
        if name not in PARTS:
            expected = f"expected some of {','.join(PARTS)}"
            raise argparse.ArgumentTypeError(f"unknown part {name!r}: {expected}")
    return [name for name in PARTS if name in names]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sets, no JVM")
    parser.add_argument(
        "--parts", type=names_of, default=[*PARTS], metavar="NAMES",
        help=f"only these parts, separated by commas: {', '.join(PARTS)}",
    )  # fmt: skip
    parser.add_argument("--directory", type=Path, default=Path(".run"), help="for files")
    parser.add_argument("--write", action="store_true", help="write the page; measure nothing")
    given = parser.parse_args()
    end_at_sigterm()
    directory = given.directory.absolute() / "bench"
    if given.write:
        try:
            drawn = table.replace_figures(
                PAGE.read_text(), table.read_results(directory / "results")
            )
        except ValueError as error:
            parser.error(f"{PAGE}: {error}")
        PAGE.write_text(drawn)
        return 0
    results, failed = {}, 0
    for result in measure(Run(directory, is_quick=given.quick), given.parts):
        table.write_result(directory / "results", result)
        results[result.part] = result
        failed += bool(result.error) + judge(result.rows, is_quick=given.quick)
    print(table.draw(results))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
