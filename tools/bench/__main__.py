"""``make bench``: print one table of our figures, each with a peer's figure from the same run.

    python -m tools.bench [--quick] [--parts NAMES] [--continue] [--write] [--directory DIRECTORY]

The command prints the table to standard output, and its progress and the seconds of each part to
standard error. It writes the same lines to ``DIRECTORY/bench.json`` after each part, and plots of
the growth to ``DIRECTORY/growth.svg`` and ``scale.svg``. ``--quick`` runs every part on small sets,
without a JVM.
``--write`` writes the table into the page of the documentation (``page``).
``--continue`` keeps the parts of the last run and measures only those that it lacks.

The exit code is 1 if a part failed, or if a limit that must hold was exceeded. The other parts run
and are printed nevertheless.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from tools.bench.decisions import DisagreementError
from tools.bench.figures import Line, format_figure
from tools.bench.machine import describe_machine, find_versions
from tools.bench.page import PAGE, PageError, write_page
from tools.bench.parts import FULL, PARTS, QUICK, PartRunner, Plan, Run
from tools.bench.processes import ProcessError
from tools.bench.report import Part, Report, ReportError, read_report

_RUN_DIRECTORY: Final = Path(".run")


def measure(
    plan: Plan,
    directory: Path,
    names: Iterable[str],
    parts: Mapping[str, PartRunner] = PARTS,
    *,
    continues: bool = False,
) -> Iterator[tuple[str, Part | None]]:
    """Run the parts; yield each with its name.

    A part in which a process of ours failed, or in which two authorizers answered one question
    differently, is reported and yielded as None. A peer that fails is only left out of its part.
    """
    run = Run(plan=plan, directory=directory, continues=continues)
    for name in names:
        started = time.monotonic()
        try:
            lines = [*parts[name](run)]
        except (DisagreementError, ProcessError) as error:
            _report_progress(f"{name}: {error}")
            yield name, None
            continue
        part = Part(time.monotonic() - started, lines)
        _report_progress(f"{name}: {part.seconds:.0f} s")
        yield name, part


def _report_progress(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)


def _part_names(text: str) -> list[str]:
    names = [each.strip() for each in text.split(",")]
    for name in names:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(
                f"unknown part {name!r}: expected some of {','.join(PARTS)}"
            )
    # In the table's order, and each only once.
    return [name for name in PARTS if name in names]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench", description="Measure authorizerd."
    )
    parser.add_argument("--quick", action="store_true", help="small sets, no JVM, a few seconds")
    parser.add_argument(
        "--parts",
        type=_part_names,
        default=[*PARTS],
        metavar="NAMES",
        help=f"only these parts, separated by commas: {', '.join(PARTS)}",
    )
    parser.add_argument(
        "--continue",
        dest="continues",
        action="store_true",
        help="keep what the last run has measured, and measure the rest",
    )
    parser.add_argument(
        "--write", action="store_true", help=f"write the table into {PAGE}, unless the run fails"
    )
    parser.add_argument(
        "--directory", type=Path, default=_RUN_DIRECTORY, help="for files (default: %(default)s)"
    )
    return parser.parse_args()


def _start_report(began: str, *, is_quick: bool) -> Report:
    return Report(
        machine=describe_machine(),
        programs=find_versions(),
        began=began,
        seconds=0.0,
        is_quick=is_quick,
        parts={},
    )


def _continue_report(path: Path, names: Iterable[str], began: str) -> Report:
    """Return the last run's report, which also says which parts are measured from now on.

    Raises:
        ReportError: there is none.
    """
    report = read_report(path)
    lacking = [name for name in names if name not in report.parts]
    return msgspec.structs.replace(report, continued={**report.continued, began: lacking})


def _write_report(path: Path, report: Report) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")


def main() -> int:
    arguments = _arguments()
    # The wall clock only dates the run: it may be set while the run is timed.
    began, started = time.strftime("%Y-%m-%dT%H:%M:%S%z"), time.monotonic()
    directory = arguments.directory.absolute() / "bench"
    directory.mkdir(parents=True, exist_ok=True)
    plan = QUICK if arguments.quick else FULL
    path = arguments.directory / "bench.json"
    try:
        report = _continue_report(path, arguments.parts, began) if arguments.continues else None
    except ReportError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if report is None:
        report = _start_report(began, is_quick=arguments.quick)
        # So that a run that is killed in its first part can be continued, too.
        _write_report(path, report)
    names = [name for name in arguments.parts if name not in report.parts]
    failed = False
    before = report.seconds
    for name, part in measure(plan, directory, names, continues=arguments.continues):
        if part is None:
            failed = True
            continue
        measured = report.parts | {name: part}
        report = msgspec.structs.replace(
            report,
            seconds=before + time.monotonic() - started,
            parts={name: measured[name] for name in PARTS if name in measured},
        )
        # After each part: a run that is killed keeps what it has measured.
        _write_report(path, report)
    print(f"{report}\n{report.seconds:.0f} s")
    code = judge(report.lines, is_quick=arguments.quick) or int(failed)
    if arguments.write and code == 0:
        try:
            write_page(arguments.directory)
        except PageError as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    return code


def judge(lines: Iterable[Line], *, is_quick: bool) -> int:
    """Name each limit that must hold and was exceeded; return the exit code."""
    # Times of a quick run mean nothing: tests run it while the machine does other work.
    broken = [line for line in lines if line.is_broken and not (is_quick and line.unit == "ms")]
    for line in broken:
        assert line.limit is not None
        print(
            f"bench: {line.what}: {format_figure(line.ours)} {line.unit} exceeds the limit of "
            f"{format_figure(line.limit)} {line.unit}",
            file=sys.stderr,
        )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
