"""The report of a run: its lines, and the machine, programs and times behind them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tools.bench.figures import Line, format_table
from tools.bench.machine import Machine


class ReportError(Exception):
    """The report of a run cannot be read."""


class Part(msgspec.Struct, frozen=True):
    """The lines of one part, and how long it took."""

    seconds: float
    lines: list[Line]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``bench.json``.

    ``parts`` has the parts that ran, by name, ``programs`` the versions of other programs.
    ``began`` and ``seconds`` are those of the whole run, ``continued`` the times at which it was
    continued, with the names of the parts that were measured then.
    """

    machine: Machine
    programs: dict[str, str]
    began: str
    seconds: float
    is_quick: bool
    parts: dict[str, Part]
    continued: dict[str, list[str]] = {}

    @property
    def lines(self) -> list[Line]:
        """The lines of all parts."""
        return [line for part in self.parts.values() for line in part.lines]

    def describe_machine(self) -> str:
        """Return a line about the machine, and one about the programs."""
        programs = ", ".join(f"{name} {version}" for name, version in self.programs.items())
        return f"{self.machine}\n{programs}\n"

    def __str__(self) -> str:
        tables = (
            f"\n{name}, {part.seconds:.0f} s\n\n{format_table(part.lines)}"
            for name, part in self.parts.items()
            if part.lines
        )
        return self.describe_machine() + "".join(tables)


def read_report(path: Path) -> Report:
    """Return the report in ``bench.json``.

    Raises:
        ReportError: there is none, or it cannot be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report)
    except (OSError, msgspec.MsgspecError) as error:
        raise ReportError(f"{path}: {error}: run python -m tools.bench first") from error
