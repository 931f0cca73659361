"""The report of a run: its lines, and the machine, programs and times behind them."""

from __future__ import annotations

import msgspec

from ops.bench.figures import Line, format_table
from ops.bench.machine import Machine


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``bench.json``.

    ``parts`` has the seconds of each part that ran, ``programs`` the versions of other programs.
    """

    machine: Machine
    programs: dict[str, str]
    began: str
    seconds: float
    is_quick: bool
    parts: dict[str, float]
    lines: list[Line]

    def __str__(self) -> str:
        programs = ", ".join(f"{name} {version}" for name, version in self.programs.items())
        return f"{self.machine}\n{programs}\n\n{format_table(self.lines)}"
