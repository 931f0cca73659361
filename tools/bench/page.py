"""Write the table of a run, and what describes the run, into ``docs/performance.md``.

    python -m tools.bench.page [--directory DIRECTORY] [--without NAMES]

It reads ``DIRECTORY/bench.json``, which ``python -m tools.bench`` has written, and replaces what is
between two markers of the page. It copies the plots, too.

**Invariant:** the figures of the page are those of one whole run. A run of some parts is refused,
unless ``--without`` names the parts that it lacks. Then the page names them, too.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

from tools.bench import replay_growth, scale
from tools.bench.figures import format_table
from tools.bench.parts import PARTS
from tools.bench.report import Report, ReportError, read_report

PAGE: Final = Path("docs/performance.md")
PLOTS: Final = Path("docs")
PLOT_NAMES: Final = ("growth.svg", scale.PLOT_NAME, replay_growth.PLOT_NAME)
_SHOWN: Final = {
    "scale": f"![What grows with the number of ACLs, up to 5 million]({scale.PLOT_NAME})\n\n",
    "replay-growth": f"![What grows with the number of lines]({replay_growth.PLOT_NAME})\n\n",
}
"""The plots among the tables."""
BEGIN: Final = "<!-- figures: begin; written by python -m tools.bench.page -->"
END: Final = "<!-- figures: end -->"


class PageError(Exception):
    """The page or the run cannot be used; the text says why and what to do."""


def replace_figures(page: str, report: Report, without: Collection[str] = ()) -> str:
    """Return the page with the figures of the run between its markers.

    Args:
        without: the parts that the run may lack.

    Raises:
        PageError: the page does not have the markers, or the run left parts out.
    """
    missing = [name for name in PARTS if name not in report.parts]
    if report.is_quick or not set(missing).issubset(without):
        what = "with --quick" if report.is_quick else f"without {', '.join(missing)}"
        raise PageError(f"the run was {what}: expected a whole run, python -m tools.bench")
    before, begin, rest = page.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise PageError(f"{PAGE}: expected the lines {BEGIN!r} and {END!r}, in this order")
    return f"{before}{begin}\n{_format(report, missing)}{end}{after}"


def _format(report: Report, missing: Collection[str]) -> str:
    minutes = f"{report.seconds / 60:.0f} minutes"
    tables = (
        f"### `{name}`\n\n```\n{format_table(part.lines)}```\n\n{_SHOWN.get(name, '')}"
        for name, part in report.parts.items()
        if part.lines
    )
    continued = "".join(
        f" Continued at {when}, it measured {', '.join(names)}."
        for when, names in report.continued.items()
    )
    lacking = f" It lacks {', '.join(missing)}." if missing else ""
    return (
        f"The run began at {report.began} and took {minutes}.{continued}{lacking}\n\n"
        f"```\n{report.describe_machine()}```\n\n{''.join(tables)}"
    )


def write_page(directory: Path, without: Collection[str] = ()) -> None:
    """Write the page from the run in ``directory``, which may lack parts.

    Raises:
        PageError: see ``replace_figures``.
        ReportError: there is no run.
    """
    report = read_report(directory / "bench.json")
    PAGE.write_text(replace_figures(PAGE.read_text(), report, without))
    for name in PLOT_NAMES:
        # A run that lacks a part lacks its plot; the one of the page stays.
        if (directory / name).exists():
            shutil.copyfile(directory / name, PLOTS / name)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.page")
    parser.add_argument("--directory", type=Path, default=Path(".run"), help="of the run")
    parser.add_argument(
        "--without",
        type=lambda text: text.split(","),
        default=(),
        metavar="NAMES",
        help="parts that the run may lack, separated by commas; the page names them",
    )
    arguments = parser.parse_args()
    try:
        write_page(arguments.directory, arguments.without)
    except (PageError, ReportError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
