"""How long stories, chaos, fuzzing and other random tests have run, summed up by release and kind.

``.ci/nightly`` writes one line of JSON for each run. Adding a file of such lines removes it, so
that no run counts twice.
"""

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from tests.support.named_tests import ROOT
from tests.support.written_tables import replace_table, write_table

FILE: Final = ROOT / "docs" / "track-record.json"
PAGE: Final = ROOT / "docs" / "track-record.md"
COMMAND: Final = "python -m tests.track_record"
KINDS: Final = ("faults", "stories", "chaos", "fuzz", "soak", "shadow")
"""The first word of a part of ``.ci/nightly``: chaos-quorum is a kind of chaos."""
_HEAD: Final = ("release", "tests", "runs", "hours", "failed runs", "newest run")


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run: the part of ``.ci/nightly``, and the commit and the day at its end."""

    part: str
    seed: int
    seconds: int
    commit: str
    day: str
    passed: bool

    @property
    def kind(self) -> str:
        return self.part.partition("-")[0]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What repeats a run that failed."""

    part: str
    seed: int
    commit: str
    day: str


class Sum(msgspec.Struct, kw_only=True):
    """All runs of one kind with one release."""

    runs: int = 0
    seconds: int = 0
    failures: list[Failure] = msgspec.field(default_factory=list)
    newest: str = ""


Sums = dict[str, dict[str, Sum]]
"""By release, then by kind."""


def load_sums() -> Sums:
    return msgspec.json.decode(FILE.read_bytes(), type=Sums)


def read_release() -> str:
    """Return the version of the working tree."""
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return version


def read_runs(path: Path) -> list[Run]:
    """Return the runs in a file.

    Raises:
        msgspec.DecodeError: a line is not a run.
    """
    return msgspec.json.Decoder(Run).decode_lines(path.read_bytes())


def add_files(paths: Iterable[Path]) -> None:
    """Add all runs in these files, remove the files, and write the page.

    Runs of other kinds are left out.

    Raises:
        msgspec.DecodeError: as ``read_runs``; then nothing is changed.
    """
    files = [*paths]
    runs = [run for path in files for run in read_runs(path)]
    sums = load_sums()
    of_release = sums.setdefault(read_release(), {})
    for run in runs:
        if run.kind in KINDS:
            _add(of_release.setdefault(run.kind, Sum()), run)
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(sums), indent=2) + b"\n")
    for path in files:
        path.unlink()
    PAGE.write_text(write_page(PAGE.read_text(), sums))


def write_page(page: str, sums: Sums) -> str:
    """Return the page with the table of these sums."""
    return replace_table(page, COMMAND, write_table(_HEAD, _rows(sums)))


def _add(total: Sum, run: Run) -> None:
    total.runs += 1
    total.seconds += run.seconds
    total.newest = max(total.newest, run.day)
    if not run.passed:
        failure = Failure(part=run.part, seed=run.seed, commit=run.commit, day=run.day)
        total.failures.append(failure)


def _rows(sums: Sums) -> Iterator[list[str]]:
    for release in sorted(sums, reverse=True):
        for kind in KINDS:
            if total := sums[release].get(kind):
                yield [
                    release,
                    kind,
                    f"{total.runs:,}",
                    f"{total.seconds / 3600:,.2f}",
                    ", ".join(map(_failure, total.failures)) or "none",
                    total.newest,
                ]


def _failure(failure: Failure) -> str:
    return f"{failure.part}, seed {failure.seed} ({failure.day}, {failure.commit})"
