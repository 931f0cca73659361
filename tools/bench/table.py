"""Draw the results of a folder as tables, and put them into ``docs/performance.md``.

    python -m tools.bench.table [FOLDER] [--write]

Each part is one table: a row for each case, a column for each metric, or the other way round if
there are more metrics. **Invariant:** quick results and failed parts are never written; the page
names the parts that it lacks.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tools.bench.figures import Row
from tools.bench.parts import PARTS
from tools.bench.results import Result, read_results

FOLDER: Final = Path(".run/bench/results")
PAGE: Final = Path("docs/performance.md")
BEGIN: Final = "<!-- figures: begin; written by python -m tools.bench.table --write -->\n"
END: Final = "<!-- figures: end -->"


def draw(results: Mapping[str, Result]) -> str:
    """Return the tables of all parts, in the order of ``PARTS``."""
    shown = [results[name] for name in PARTS if name in results and not results[name].error]
    lacking = [name for name in PARTS if name not in {result.part for result in shown}]
    missing = [f"Not measured: {', '.join(lacking)}."] if lacking else []
    parts = [
        f"### `{result.part}`\n\nMeasured at {result.began} in {result.seconds:.0f} s; "
        f"load average {result.load_average:.1f} before.\n\n{draw_rows(result.rows)}"
        for result in shown
    ]
    machines = dict.fromkeys(result.machine for result in shown)
    return "\n\n".join([*machines, *missing, *parts]) + "\n"


def draw_rows(rows: Sequence[Row]) -> str:
    """Return the table of a part."""
    cells = {(row.what, row.metric): str(row) for row in rows}
    names, columns = (
        [*dict.fromkeys(row.what for row in rows)],
        [*dict.fromkeys(row.metric for row in rows)],
    )
    if len(columns) > len(names):
        names, columns = columns, names
        cells = {(metric, what): cell for (what, metric), cell in cells.items()}
    lines = [["", *columns], ["---"] * (len(columns) + 1)]
    lines += [[name, *(cells.get((name, column), "") for column in columns)] for name in names]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def replace_figures(page: str, results: Mapping[str, Result]) -> str:
    """Return the page with these results between its markers.

    Raises:
        ValueError: a result is of a quick run, or the page lacks the markers.
    """
    quick = [name for name, result in results.items() if result.is_quick]
    if quick or not results:
        raise ValueError(f"expected the results of a full run, found {quick or 'none'}")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"expected the lines {BEGIN!r} and {END!r}, in this order")
    return f"{before}{begin}\n{draw(results)}\n{end}{after}"


def main(words: Sequence[str]) -> int:
    folders = [Path(word) for word in words if word != "--write"] or [FOLDER]
    results = read_results(folders[0])
    if "--write" not in words:
        print(draw(results))
        return 0
    try:
        PAGE.write_text(replace_figures(PAGE.read_text(), results))
    except ValueError as error:
        print(f"bench: {PAGE}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
